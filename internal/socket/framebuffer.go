package socket

import (
	"encoding/binary"
	"math"
	"sync"
)

// The first byte of a frame: that it is the last of its message, and what it is.
const (
	final    = 0x80
	opText   = 0x1
	opBinary = 0x2
	opClose  = 0x8
	opPing   = 0x9
	opPong   = 0xA
)

const (
	frameHeader = 10       // the longest header of a frame that a server writes
	chunk       = 64 << 10 // how much is written at once, so that progress can be seen
)

// outbox holds frames, one after the other, as they go out. What has been handed to the network cannot be taken back.
type outbox struct {
	data   []byte
	ends   []int // where each frame ends
	past   int   // how many frames are written
	sent   int   // how many bytes are written
	handed int   // how many bytes the network has or is being given
}

// outboxes are reused: an idle connection has none.
var outboxes = sync.Pool{New: func() any { return new(outbox) }}

func (o *outbox) free() {
	if cap(o.data) <= chunk {
		*o = outbox{data: o.data[:0], ends: o.ends[:0]}
		outboxes.Put(o)
	}
}

// add appends a frame.
func (o *outbox) add(op byte, payload []byte) {
	o.data = append(o.data, final|op)
	switch n := len(payload); {
	case n < 126:
		o.data = append(o.data, byte(n))
	case n <= math.MaxUint16:
		o.data = binary.BigEndian.AppendUint16(append(o.data, 126), uint16(n))
	default:
		o.data = binary.BigEndian.AppendUint64(append(o.data, 127), uint64(n))
	}
	o.data = append(o.data, payload...)
	o.ends = append(o.ends, len(o.data))
}

// frames and bytes that are not yet written.
func (o *outbox) frames() int { return len(o.ends) - o.past }
func (o *outbox) bytes() int  { return len(o.data) - o.sent }

// hand returns what to write next. What it returned the last time has been written.
func (o *outbox) hand() []byte {
	o.sent = o.handed
	for o.past < len(o.ends) && o.ends[o.past] <= o.sent {
		o.past++
	}
	o.handed = min(o.sent+chunk, len(o.data))
	return o.data[o.sent:o.handed]
}

// drop forgets every frame of which the network has nothing yet. One that it has in part must come to its end.
func (o *outbox) drop() {
	keep := o.past
	for o.handed > 0 && keep < len(o.ends) {
		if keep++; o.ends[keep-1] >= o.handed {
			break
		}
	}
	o.ends = o.ends[:keep]
	if keep == 0 {
		o.data = o.data[:0]
		return
	}
	o.data = o.data[:o.ends[keep-1]]
}
