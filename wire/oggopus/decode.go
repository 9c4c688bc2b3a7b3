package oggopus

import (
	"errors"
	"fmt"
	"strings"
)

// Decode reads an Ogg file with one stream, from its first page to its last one. The packets share memory with data where
// possible. Any defect is an error, including a truncated stream.
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

// reader joins packets from pages.
type reader struct {
	stream   *Stream
	serial   uint32
	sequence uint32 // of the next page
	headers  int    // the number of headers that were read: OpusHead, OpusTags
	begun    bool
	last     bool   // the last page was read
	open     bool   // a packet continues on the next page
	partial  []byte // the beginning of that packet
}

// add reads the next page.
func (r *reader) add(p *page) error {
	switch first := p.flags&flagFirst != 0; {
	case r.last || first == r.begun || r.begun && p.serial != r.serial:
		return errors.New("the Ogg file must hold one stream, from its first page to its last one")
	case r.begun && p.sequence != r.sequence:
		return errors.New("a page of the Ogg stream is missing")
	case (p.flags&flagContinued != 0) != r.open:
		return errors.New("a page of the Ogg stream does not continue the packet of the previous page")
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
	// An unfinished packet continues on the next page, even if none of its bytes are on this one.
	if n := len(p.lacing); n > 0 {
		r.open = p.lacing[n-1] == segment
	}
	r.partial = append(r.partial, body...)
	if r.last && r.open {
		return errTruncated
	}
	return nil
}

// packet reads the end of a packet, or all of it.
func (r *reader) packet(end []byte) error {
	packet := end
	if r.open {
		packet = append(r.partial, end...) //nolint:gocritic // the partial packet is not used again
		r.partial, r.open = nil, false
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
		return fmt.Errorf("the Opus stream has more than %d packets", MaxPackets)
	}
	r.stream.Packets = append(r.stream.Packets, packet)
	return nil
}
