package node

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// written takes everything an outbox has to write, in order: the type of a message, or the job of a piece of speech.
func written(o *outbox) (all []string) {
	for {
		if m, ok := o.message(); ok {
			all = append(all, string(m.frame.Type()))
			continue
		}
		h, _, _, ok := o.piece()
		if !ok {
			return all
		}
		all = append(all, h.JobID)
	}
}

// TestMessagesPassSpeech: a heartbeat does not wait until all is spoken.
func TestMessagesPassSpeech(t *testing.T) {
	t.Parallel()
	var o outbox
	spoken, err := newSpeech(&Result{Speech: bytes.Repeat([]byte{1}, 2*wire.MaxChunk+1)})
	if err != nil {
		t.Fatal(err)
	}
	ended := false
	o.messages = append(o.messages, outgoing{frame: wire.JobResult{}})
	o.voices = append(o.voices, &voice{of: wire.ActiveJob{JobID: "a"}, speech: spoken, written: func() { ended = true }})
	if m, ok := o.message(); !ok || m.frame.Type() != "job_result" {
		t.Fatalf("first comes %v, want the result", m.frame)
	}
	h, data, done, ok := o.piece()
	if !ok || h.Chunk != 0 || h.Last || len(data) != wire.MaxChunk || done != nil {
		t.Fatalf("then %+v, %d bytes", h, len(data))
	}
	o.messages = append(o.messages, outgoing{frame: wire.NodeHeartbeat{}})
	if m, ok := o.message(); !ok || m.frame.Type() != "node_heartbeat" {
		t.Fatalf("then %v, want the heartbeat", m.frame)
	}
	if h, _, done, _ = o.piece(); h.Chunk != 1 || h.Last || done != nil {
		t.Fatalf("then %+v", h)
	}
	if h, data, done, _ = o.piece(); h.Chunk != 2 || !h.Last || len(data) != 1 || done == nil {
		t.Fatalf("then %+v, %d bytes", h, len(data))
	}
	if done(); !ended || o.len() != 0 {
		t.Errorf("%d are left", o.len())
	}
}

// TestUnwantedSpeech: of speech that nobody wants, nothing more is said.
func TestUnwantedSpeech(t *testing.T) {
	t.Parallel()
	var o outbox
	for _, id := range []string{"a", "b", "a", "c"} {
		o.voices = append(o.voices, &voice{of: wire.ActiveJob{JobID: id}, speech: &speech{chunks: [][]byte{{1}}}})
	}
	o.silence(wire.ActiveJob{JobID: "a"})
	if got := written(&o); len(got) != 2 || got[0] != "b" || got[1] != "c" {
		t.Errorf("said %v, want b and c", got)
	}
}

// TestNobodyReads: what waits to be written is bounded; partial results are left out long before the bound is reached.
func TestNobodyReads(t *testing.T) {
	t.Parallel()
	l := newLink(t.Context(), nil, time.Second)
	for range busyQueue {
		l.say(wire.JobAck{})
	}
	if l.busy() {
		t.Errorf("busy with %d", busyQueue)
	}
	if l.say(wire.JobAck{}); !l.busy() {
		t.Errorf("not busy with %d", busyQueue+1)
	}
	for range mostQueued - busyQueue - 1 {
		l.say(wire.JobAck{})
	}
	if l.ctx.Err() != nil {
		t.Errorf("given up with %d", mostQueued)
	}
	l.say(wire.JobAck{})
	if l.ctx.Err() == nil || !errors.Is(l.why(), errUnread) || l.out.len() != 0 {
		t.Errorf("with %d: %v, %d are kept", mostQueued+1, l.why(), l.out.len())
	}
	if l.say(wire.JobAck{}); l.out.len() != 0 {
		t.Error("it takes more after its end")
	}
}

// TestQueuedOnce: an outcome that waits to be written is not queued again, however often it is asked for.
func TestQueuedOnce(t *testing.T) {
	t.Parallel()
	n := &Node{link: newLink(t.Context(), nil, time.Second)}
	key := wire.ActiveJob{JobID: "a", AttemptID: 1}
	asked := &task{node: n, key: key, stage: finished, outcome: failed(key, reasonFailed)}
	for range 3 {
		n.deliver(asked)
	}
	if got := n.link.out.len(); got != 1 {
		t.Fatalf("%d are queued, want 1", got)
	}
	m, _ := n.link.out.message()
	if m.written(); asked.sent.IsZero() {
		t.Error("it is not known that it was written")
	}
	if n.deliver(asked); n.link.out.len() != 1 {
		t.Error("it is not sent again after that")
	}
}
