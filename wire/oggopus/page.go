package oggopus

import (
	"encoding/binary"
	"errors"
)

// Flags of a page (RFC 3533, section 6).
const (
	flagContinued = 1 << iota // the page begins with the rest of a packet
	flagFirst
	flagLast
)

const (
	capture     = "OggS"
	pageHeader  = 27 // bytes before the lacing values
	checksumAt  = 22
	maxSegments = 255
	segment     = 255 // the size of a full segment; a packet continues after one
)

// page is a page of an Ogg stream.
type page struct {
	flags    byte
	granule  int64 // the number of samples up to the end of the page
	serial   uint32
	sequence uint32
	lacing   []byte
	body     []byte
}

// segmentsOf returns the number of segments of a packet. A packet whose size is a multiple of 255 ends with an empty one.
func segmentsOf(bytes int) int { return bytes/segment + 1 }

// add adds a packet, which must fit on the page.
func (p *page) add(packet []byte) {
	for range len(packet) / segment {
		p.lacing = append(p.lacing, segment)
	}
	p.lacing = append(p.lacing, byte(len(packet)%segment))
	p.body = append(p.body, packet...)
}

// append appends the encoded page to b.
func (p *page) append(b []byte) []byte {
	from := len(b)
	b = append(append(b, capture...), 0, p.flags)
	b = binary.LittleEndian.AppendUint64(b, uint64(p.granule))
	b = binary.LittleEndian.AppendUint32(b, p.serial)
	b = binary.LittleEndian.AppendUint32(b, p.sequence)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = append(append(append(b, byte(len(p.lacing))), p.lacing...), p.body...)
	binary.LittleEndian.PutUint32(b[from+checksumAt:], checksum(b[from:]))
	return b
}

var (
	errNotOgg    = errors.New("not an Ogg stream: a page must begin with OggS and version 0")
	errTruncated = errors.New("the Ogg stream is truncated")
	errChecksum  = errors.New("a page of the Ogg stream is damaged: its checksum does not match")
)

// readPage reads the first page of data, and shares memory with it.
func readPage(data []byte) (p page, rest []byte, err error) {
	if len(data) < pageHeader {
		return p, nil, errTruncated
	}
	if string(data[:4]) != capture || data[4] != 0 {
		return p, nil, errNotOgg
	}
	size := pageHeader + int(data[pageHeader-1])
	if len(data) < size {
		return p, nil, errTruncated
	}
	p = page{
		flags: data[5], granule: int64(binary.LittleEndian.Uint64(data[6:])), serial: binary.LittleEndian.Uint32(data[14:]),
		sequence: binary.LittleEndian.Uint32(data[18:]), lacing: data[pageHeader:size],
	}
	from := size
	for _, n := range p.lacing {
		size += int(n)
	}
	if len(data) < size {
		return p, nil, errTruncated
	}
	if checksum(data[:size]) != binary.LittleEndian.Uint32(data[checksumAt:]) {
		return p, nil, errChecksum
	}
	p.body = data[from:size]
	return p, data[size:], nil
}

// checksums is the table of the Ogg CRC: polynomial 0x04c11db7, most significant bit first.
var checksums = func() (table [256]uint32) {
	for i := range table {
		sum := uint32(i) << 24
		for range 8 {
			if sum&(1<<31) != 0 {
				sum = sum<<1 ^ 0x04c11db7
			} else {
				sum <<= 1
			}
		}
		table[i] = sum
	}
	return table
}()

// checksum returns the checksum of a page, whose checksum field counts as zero.
func checksum(page []byte) (sum uint32) {
	for i, b := range page {
		if i >= checksumAt && i < checksumAt+4 {
			b = 0
		}
		sum = sum<<8 ^ checksums[byte(sum>>24)^b]
	}
	return sum
}
