package oggopus

import "encoding/binary"

// MendChecksums makes the checksums of a file's pages right, so that a fuzzer gets past them.
func MendChecksums(file []byte) []byte {
	for rest := file; len(rest) >= pageHeader; {
		size := pageHeader + int(rest[pageHeader-1])
		if size > len(rest) {
			break
		}
		for _, n := range rest[pageHeader:size] {
			size += int(n)
		}
		if size > len(rest) {
			break
		}
		binary.LittleEndian.PutUint32(rest[checksumAt:], checksum(rest[:size]))
		rest = rest[size:]
	}
	return file
}

// Spread lays the packets of a file that Encode wrote over pages of so many segments each, but for the first.
func Spread(file []byte, segments int) []byte {
	head, rest, err := readPage(file)
	if err != nil {
		panic(err)
	}
	out, sequence := head.append(nil), head.sequence
	var lacing, body []byte
	for len(rest) > 0 {
		var p page
		if p, rest, err = readPage(rest); err != nil {
			panic(err)
		}
		lacing, body = append(lacing, p.lacing...), append(body, p.body...)
	}
	continued := false
	for len(lacing) > 0 {
		sequence++
		p := page{serial: head.serial, sequence: sequence, lacing: lacing[:min(segments, len(lacing))]}
		lacing = lacing[len(p.lacing):]
		size := 0
		for _, n := range p.lacing {
			size += int(n)
		}
		p.body, body = body[:size], body[size:]
		if continued {
			p.flags |= flagContinued
		}
		if continued = p.lacing[len(p.lacing)-1] == segment; len(lacing) == 0 {
			p.flags |= flagLast
		}
		out = p.append(out)
	}
	return out
}
