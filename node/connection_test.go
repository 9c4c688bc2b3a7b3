package node

import (
	"bytes"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// drainQueue takes everything from a queue in the order of writing: the type of a message, or the job of a speech chunk.
func drainQueue(q *sendQueue) (all []string) {
	for {
		if m, ok := q.nextMessage(); ok {
			all = append(all, string(m.frame.Type()))
			continue
		}
		h, _, _, ok := q.nextSpeechChunk()
		if !ok {
			return all
		}
		all = append(all, h.JobID)
	}
}

func TestMessagesAreSentBeforeSpeech(t *testing.T) {
	t.Parallel()
	var q sendQueue
	speech, err := newSpeech(&Result{Speech: bytes.Repeat([]byte{1}, 2*wire.SpeechChunk+1)})
	if err != nil {
		t.Fatal(err)
	}
	written := false
	q.messages = append(q.messages, queuedMessage{frame: wire.JobResult{}})
	q.speech = append(q.speech, &queuedSpeech{key: wire.ActiveJob{JobID: "a"}, speech: speech, onWritten: func() { written = true }})
	if m, ok := q.nextMessage(); !ok || m.frame.Type() != "job_result" {
		t.Fatalf("first %v, want the result", m.frame)
	}
	h, data, onWritten, ok := q.nextSpeechChunk()
	if !ok || h.Chunk != 0 || h.Last || len(data) != wire.SpeechChunk || onWritten != nil {
		t.Fatalf("then %+v, %d bytes", h, len(data))
	}
	q.messages = append(q.messages, queuedMessage{frame: wire.NodeHeartbeat{}})
	if m, ok := q.nextMessage(); !ok || m.frame.Type() != "node_heartbeat" {
		t.Fatalf("then %v, want the heartbeat", m.frame)
	}
	if h, _, onWritten, _ = q.nextSpeechChunk(); h.Chunk != 1 || h.Last || onWritten != nil {
		t.Fatalf("then %+v", h)
	}
	if h, data, onWritten, _ = q.nextSpeechChunk(); h.Chunk != 2 || !h.Last || len(data) != 1 || onWritten == nil {
		t.Fatalf("then %+v, %d bytes", h, len(data))
	}
	if onWritten(); !written || q.len() != 0 {
		t.Errorf("%d entries are left", q.len())
	}
}

func TestDiscardSpeech(t *testing.T) {
	t.Parallel()
	var q sendQueue
	for _, id := range []string{"a", "b", "a", "c"} {
		q.speech = append(q.speech, &queuedSpeech{key: wire.ActiveJob{JobID: id}, speech: &speech{chunks: [][]byte{{1}}}})
	}
	q.discardSpeech(wire.ActiveJob{JobID: "a"})
	if got := drainQueue(&q); len(got) != 2 || got[0] != "b" || got[1] != "c" {
		t.Errorf("sent %v, want b and c", got)
	}
}

// The queue of a connection is limited, and partial results are omitted long before the limit.
func TestSendQueueIsLimited(t *testing.T) {
	t.Parallel()
	c := newConnection(t.Context(), nil, &url.URL{}, time.Second)
	for range maxQueuedForPartials {
		c.send(wire.JobAck{})
	}
	if c.isCongested() {
		t.Errorf("congested with %d messages", maxQueuedForPartials)
	}
	if c.send(wire.JobAck{}); !c.isCongested() {
		t.Errorf("not congested with %d messages", maxQueuedForPartials+1)
	}
	for range maxQueued - maxQueuedForPartials - 1 {
		c.send(wire.JobAck{})
	}
	if c.ctx.Err() != nil {
		t.Errorf("closed with %d messages", maxQueued)
	}
	c.send(wire.JobAck{})
	if c.ctx.Err() == nil || !errors.Is(c.closeError(), errNotReading) || c.queue.len() != 0 {
		t.Errorf("with %d messages: %v, %d are kept", maxQueued+1, c.closeError(), c.queue.len())
	}
	if c.send(wire.JobAck{}); c.queue.len() != 0 {
		t.Error("a message was queued after the end")
	}
}

func TestOutcomeIsQueuedOnce(t *testing.T) {
	t.Parallel()
	n := &Node{conn: newConnection(t.Context(), nil, &url.URL{}, time.Second)}
	key := wire.ActiveJob{JobID: "a", AttemptID: 1}
	a := &attempt{node: n, key: key, stage: stageFinished, outcome: failure(key, reasonFailed)}
	for range 3 {
		n.deliver(a)
	}
	if got := n.conn.queue.len(); got != 1 {
		t.Fatalf("%d messages are queued, want 1", got)
	}
	m, _ := n.conn.queue.nextMessage()
	if m.onWritten(); a.sentAt.IsZero() {
		t.Error("the time of writing is not recorded")
	}
	if n.deliver(a); n.conn.queue.len() != 1 {
		t.Error("a written outcome is not sent again")
	}
}

func TestBackoffBounds(t *testing.T) {
	t.Parallel()
	for retry, bound := range map[int]time.Duration{
		0: 200 * time.Millisecond, 1: 400 * time.Millisecond, 3: 1600 * time.Millisecond, 5: 5 * time.Second, 1000: 5 * time.Second,
	} {
		shortest, longest := bound, time.Duration(0)
		for range 1000 {
			d := defaultTiming.backoff(retry)
			shortest, longest = min(shortest, d), max(longest, d)
		}
		if longest > bound || shortest < 0 || shortest > bound/5 || longest < bound*4/5 {
			t.Errorf("retry %d: from %v to %v, want the whole of 0 to %v", retry, shortest, longest, bound)
		}
	}
}

func TestHeartbeatJitter(t *testing.T) {
	t.Parallel()
	n := &Node{registration: registration{interval: time.Second}}
	shortest, longest := time.Hour, time.Duration(0)
	for range 1000 {
		d := n.nextHeartbeat()
		shortest, longest = min(shortest, d), max(longest, d)
	}
	if shortest < 800*time.Millisecond || longest > 1200*time.Millisecond || shortest > 850*time.Millisecond || longest < 1150*time.Millisecond {
		t.Errorf("heartbeats after %v to %v, want 0.8 s to 1.2 s", shortest, longest)
	}
}
