package oggopus

import (
	"errors"
	"fmt"
	"strings"
)

// Decode reads a file that holds one stream, from its first page to its last. The packets are parts of data where they
// can be. Whatever is wrong with it is an error: a stream that is cut off is none.
func Decode(data []byte) (*Stream, error) {
	r := reader{stream: &Stream{}}
	for len(data) > 0 {
		p, rest, err := readPage(data)
		if err != nil {
			return nil, err
		}
		if err := r.add(&p); err != nil {
			return nil, err
		}
		data = rest
	}
	switch {
	case !r.last:
		return nil, errTruncated
	case len(r.stream.Packets) == 0:
		return nil, errors.New("the Opus stream has no packets")
	}
	return r.stream, nil
}

// reader puts packets together from pages.
type reader struct {
	stream   *Stream
	serial   uint32
	sequence uint32 // of the next page
	headers  int    // that were read: OpusHead, OpusTags
	begun    bool
	last     bool   // the last page was read
	open     bool   // a packet goes on on the next page
	part     []byte // what there is of it
}

// add takes in the next page.
func (r *reader) add(p *page) error {
	switch first := p.flags&flagFirst != 0; {
	case r.last || first == r.begun || r.begun && p.serial != r.serial:
		return errors.New("an Ogg file with one stream is read, from its beginning to its end")
	case r.begun && p.sequence != r.sequence:
		return errors.New("a page of the Ogg stream is missing")
	case (p.flags&flagContinued != 0) != r.open:
		return errors.New("a page of the Ogg stream does not go on where the one before it ended")
	}
	r.begun, r.serial, r.sequence, r.last = true, p.serial, p.sequence+1, p.flags&flagLast != 0
	body, size := p.body, 0
	for _, n := range p.lacing {
		size += int(n)
		if n == segment {
			continue
		}
		if err := r.packet(body[:size:size]); err != nil {
			return err
		}
		body, size = body[size:], 0
	}
	// What is left goes on on the next page, also if nothing of it is here yet.
	if n := len(p.lacing); n > 0 {
		r.open = p.lacing[n-1] == segment
	}
	r.part = append(r.part, body...)
	if r.last && r.open {
		return errTruncated
	}
	return nil
}

// packet takes in the end of a packet, or all of it.
func (r *reader) packet(end []byte) error {
	packet := end
	if r.open {
		packet = append(r.part, end...) //nolint:gocritic // the part is not used again
		r.part, r.open = nil, false
	}
	switch r.headers {
	case 0:
		r.headers++
		return r.stream.readHead(packet)
	case 1:
		r.headers++
		if !strings.HasPrefix(string(packet[:min(len(packet), len(tagsMagic))]), tagsMagic) {
			return errors.New("the Opus stream has no OpusTags")
		}
		return nil
	}
	if _, err := Samples(packet); err != nil {
		return fmt.Errorf("packet %d: %w", len(r.stream.Packets), err)
	}
	if len(r.stream.Packets) == MaxPackets {
		return fmt.Errorf("an Opus stream of more than %d packets is not read", MaxPackets)
	}
	r.stream.Packets = append(r.stream.Packets, packet)
	return nil
}
