package redisstore

import "strings"

// slotCount is how many slots a cluster has.
const slotCount = 1 << 14

// slotOf is the slot of a key: the CRC-16/XMODEM of what is in its first braces, or of all of it.
func slotOf(key string) int {
	if begin := strings.IndexByte(key, '{'); begin >= 0 {
		if length := strings.IndexByte(key[begin+1:], '}'); length > 0 {
			key = key[begin+1 : begin+1+length]
		}
	}
	var crc uint16
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % slotCount
}
