package node

import (
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	// mostQueued is how many messages wait to be written before the connection is given up: nobody reads.
	mostQueued = 65536
	// busyQueue is how many wait before partial results are left out.
	busyQueue = 256
)

// outbox is what waits to be written over a connection. Speech goes in pieces when no message waits, so that a heartbeat
// or a confirmation is not held up by somebody's long answer; it still follows its result, which was queued before it.
type outbox struct {
	messages []outgoing
	voices   []*voice
	closing  bool // when all is written, the connection is closed in good order
}

// outgoing is a message, and what to do when it was written.
type outgoing struct {
	frame   wire.Frame
	written func()
}

// voice is speech of which some was written.
type voice struct {
	of      wire.ActiveJob
	speech  *speech
	chunk   int
	written func()
}

func (o *outbox) len() int { return len(o.messages) + len(o.voices) }

// message takes the next message.
func (o *outbox) message() (outgoing, bool) {
	if len(o.messages) == 0 {
		return outgoing{}, false
	}
	m := o.messages[0]
	o.messages[0] = outgoing{}
	o.messages = o.messages[1:]
	return m, true
}

// piece takes the next piece of speech. What it returns as written is called when it was the last.
func (o *outbox) piece() (h wire.BinaryHeader, data []byte, written func(), ok bool) {
	if len(o.voices) == 0 {
		return h, nil, nil, false
	}
	v := o.voices[0]
	chunks := v.speech.chunks
	data = chunks[v.chunk]
	h = wire.BinaryHeader{Kind: wire.KindTTS, ActiveJob: v.of, Chunk: v.chunk, Last: v.chunk == len(chunks)-1}
	if v.chunk == 0 {
		h.Audio = &v.speech.format
	}
	v.chunk++
	if h.Last {
		o.voices[0] = nil
		o.voices = o.voices[1:]
		written = v.written
	}
	return h, data, written, true
}

// silence drops speech that nobody wants.
func (o *outbox) silence(of wire.ActiveJob) {
	kept := o.voices[:0]
	for _, v := range o.voices {
		if v.of != of {
			kept = append(kept, v)
		}
	}
	clear(o.voices[len(kept):])
	o.voices = kept
}
