package socket

import (
	"encoding/binary"
	"math"
	"sync"
)

// The first byte of a frame (RFC 6455, section 5.2): the FIN bit and the opcode.
const (
	finBit   = 0x80
	opText   = 0x1
	opBinary = 0x2
	opClose  = 0x8
	opPing   = 0x9
	opPong   = 0xA
)

const (
	maxFrameHeader = 10       // the longest header of a frame that a server writes
	writeSize      = 64 << 10 // how much is written at once, so that the watchdog sees progress
)

// frameBuffer holds encoded frames in the order in which they are written. Bytes that were given to the network cannot be taken
// back.
type frameBuffer struct {
	data     []byte
	ends     []int // the offset at which each frame ends
	sent     int   // frames that are written
	written  int   // bytes that are written
	inFlight int   // the offset up to which bytes were given to the network
}

// frameBuffers are reused: an idle connection has none.
var frameBuffers = sync.Pool{New: func() any { return new(frameBuffer) }}

func (b *frameBuffer) free() {
	if cap(b.data) <= writeSize {
		*b = frameBuffer{data: b.data[:0], ends: b.ends[:0]}
		frameBuffers.Put(b)
	}
}

// add appends a frame.
func (b *frameBuffer) add(op byte, payload []byte) {
	b.data = append(b.data, finBit|op)
	switch n := len(payload); {
	case n < 126:
		b.data = append(b.data, byte(n))
	case n <= math.MaxUint16:
		b.data = binary.BigEndian.AppendUint16(append(b.data, 126), uint16(n))
	default:
		b.data = binary.BigEndian.AppendUint64(append(b.data, 127), uint64(n))
	}
	b.data = append(b.data, payload...)
	b.ends = append(b.ends, len(b.data))
}

// unsentFrames and unsentBytes are what is not yet written.
func (b *frameBuffer) unsentFrames() int { return len(b.ends) - b.sent }
func (b *frameBuffer) unsentBytes() int  { return len(b.data) - b.written }

// next returns the bytes to write next. The bytes that it returned before count as written.
func (b *frameBuffer) next() []byte {
	b.written = b.inFlight
	for b.sent < len(b.ends) && b.ends[b.sent] <= b.written {
		b.sent++
	}
	b.inFlight = min(b.written+writeSize, len(b.data))
	return b.data[b.written:b.inFlight]
}

// drop removes every frame of which the network has nothing yet. A frame that is partly written must be completed.
func (b *frameBuffer) drop() {
	keep := b.sent
	for b.inFlight > 0 && keep < len(b.ends) {
		if keep++; b.ends[keep-1] >= b.inFlight {
			break
		}
	}
	b.ends = b.ends[:keep]
	if keep == 0 {
		b.data = b.data[:0]
		return
	}
	b.data = b.data[:b.ends[keep-1]]
}
