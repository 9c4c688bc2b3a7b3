package oggopus

import "encoding/binary"

// FixChecksums corrects the checksums of all pages, so that a fuzzer gets past them.
func FixChecksums(file []byte) []byte {
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

// Repaginate distributes the packets of a file over pages of the given number of segments each, except the first page.
func Repaginate(file []byte, segments int) []byte {
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
