package oggopus

import "fmt"

// Encode returns a stream as an Ogg file. The serial number distinguishes streams that are multiplexed in one file; any
// value will do for a single stream.
func Encode(s *Stream, serial uint32) ([]byte, error) {
	switch {
	case s.Channels != 1 && s.Channels != 2:
		return nil, fmt.Errorf("an Opus stream has 1 or 2 channels, not %d", s.Channels)
	case len(s.Packets) == 0 || len(s.Packets) > MaxPackets:
		return nil, fmt.Errorf("an Opus stream has 1 to %d packets, not %d", MaxPackets, len(s.Packets))
	}
	size, total := 0, 0
	lengths := make([]int, len(s.Packets))
	for i, packet := range s.Packets {
		n, err := Samples(packet)
		if err != nil {
			return nil, fmt.Errorf("packet %d: %w", i, err)
		}
		lengths[i] = n
		total += n
		size += len(packet) + segmentsOf(len(packet))
	}
	w := writer{out: make([]byte, 0, size+size/64+256), page: page{serial: serial, flags: flagFirst}}
	w.page.add(s.appendHead(nil, min(preSkip, total)))
	w.flush()
	w.page.add(appendTags(nil))
	w.flush()
	for i, packet := range s.Packets {
		if len(w.page.lacing)+segmentsOf(len(packet)) > maxSegments || w.samples >= Rate {
			w.flush()
		}
		w.page.add(packet)
		w.samples += lengths[i]
	}
	w.page.flags |= flagLast
	w.flush()
	return w.out, nil
}

// writer writes pages. A packet is never split over two pages, and a page holds little more than a second.
type writer struct {
	out     []byte
	page    page
	samples int // on the current page
}

// flush writes the current page and begins the next one.
func (w *writer) flush() {
	w.page.granule += int64(w.samples)
	w.out = w.page.append(w.out)
	w.page.flags, w.samples = 0, 0
	w.page.sequence++
	w.page.lacing, w.page.body = w.page.lacing[:0], w.page.body[:0]
}
