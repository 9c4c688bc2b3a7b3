package storetest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// outboxBehaviours is the specification of Outbox.
var outboxBehaviours = []behaviour{
	{"messages enter the stream in the order of their indexes, each once", testAppendInOrder},
	{"a message waits until its predecessors have entered the stream", testAppendWaitsForPredecessor},
	{"a second message of an index is not added, and the answer says so", testAppendExisting},
	{"a message of the owner is refused after the session has another owner", testAppendByOwner},
	{"an outbox expires after its last message", testOutboxExpires},
	{"a save keeps the outbox, and positions continue after a loss", testOutboxKeptBySaves},
	{"acknowledged messages are dropped, and positions continue", testAcknowledgedMessagesAreDropped},
	{"a long outbox keeps at least its last thousand messages", testLongOutbox},
	{"the oldest messages are dropped when the outbox exceeds its maximum size", testOutboxMaxBytes},
	{"messages that enter the stream together are not dropped before the next one", testMessagesThatEnterTogetherStay},
}

func testAppendInOrder(t *testing.T, h *Harness) {
	const n = 40
	appendBody := func(i int64, body string) int64 {
		end, err := h.Store.Append(t.Context(),
			store.AppendParams{Session: session1, Index: i, Body: []byte(body), Keep: h.Timing.Retention})
		if err != nil {
			t.Errorf("append %d: %v", i, err)
		}
		return end.Seq
	}
	var wg sync.WaitGroup
	for _, i := range rand.Perm(n) {
		wg.Go(func() {
			appendBody(int64(i), fmt.Sprintf("m%d", i))
			appendBody(int64(i), "a second message of the same utterance")
		})
	}
	wg.Wait()
	if seq := appendBody(0, "late"); seq != n {
		t.Errorf("the stream ends at %d, want %d", seq, n)
	}
	var want []store.OutboxMessage
	for i := range int64(n) {
		want = append(want, store.OutboxMessage{Seq: i + 1, Index: i, Body: fmt.Appendf(nil, "m%d", i)})
	}
	for _, after := range []int64{0, 17, n} {
		got, err := h.Store.Read(t.Context(), store.ReadParams{Session: session1, After: after})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want[after:], append([]store.OutboxMessage{}, got...)); diff != "" {
			t.Errorf("read after %d (-want +got):\n%s", after, diff)
		}
	}
	got, err := h.Store.Read(t.Context(), store.ReadParams{Session: session1, After: 10, Limit: 3})
	if err != nil || len(got) != 3 || got[0].Seq != 11 {
		t.Errorf("a limited read: %v, %v", got, err)
	}
}

func testAppendWaitsForPredecessor(t *testing.T, h *Harness) {
	put := func(i int64) int64 {
		end, err := h.Store.Append(t.Context(),
			store.AppendParams{Session: session1, Index: i, Body: []byte("x"), Keep: h.Timing.Retention})
		if err != nil {
			t.Fatal(err)
		}
		return end.Seq
	}
	for _, step := range []struct {
		index, want int64
		waiting     []int64
	}{{1, 0, []int64{1}}, {2, 0, []int64{1, 2}}, {0, 3, nil}, {4, 3, []int64{4}}, {3, 5, nil}} {
		if seq := put(step.index); seq != step.want {
			t.Errorf("after utterance %d the stream ends at %d, want %d", step.index, seq, step.want)
		}
		if waiting, err := h.Store.Waiting(t.Context(), session1); err != nil || !slices.Equal(waiting, step.waiting) {
			t.Errorf("after utterance %d these are waiting: %v, %v; want %v", step.index, waiting, err, step.waiting)
		}
	}
}

func testAppendExisting(t *testing.T, h *Harness) {
	for _, step := range []struct {
		index  int64
		body   string
		exists bool
	}{{1, "first", false}, {1, "second", true}, {1, "first", true}, {0, "first", false}, {0, "second", true}, {1, "second", true},
		{2, "first", false}} {
		p := store.AppendParams{Session: session1, Index: step.index, Body: []byte(step.body), Keep: h.Timing.Retention}
		if got, err := h.Store.Append(t.Context(), p); err != nil || got.Exists != (step.exists || h.Repeats) || got.Refused {
			t.Errorf("%+v: %+v, %v", step, got, err)
		}
	}
}

// appendBy appends a result to the outbox of session1 as an owner, or as none.
func appendBy(t *testing.T, h *Harness, index int64, by store.Ownership) store.Appended {
	t.Helper()
	a, err := h.Store.Append(t.Context(),
		store.AppendParams{Session: session1, Index: index, Body: []byte("x"), Keep: h.Timing.Retention, By: by})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func testAppendByOwner(t *testing.T, h *Harness) {
	previous, owner := store.Ownership{Owner: "i-1", Epoch: 1}, store.Ownership{Owner: "i-2", Epoch: 2}
	if a := appendBy(t, h, 0, store.Ownership{}); a.Seq != 1 || a.Refused || a.Owner != "" {
		t.Errorf("without an owner: %+v", a)
	}
	h.save(t, "i-1", 1, starting)
	if a := appendBy(t, h, 1, previous); a.Seq != 2 || a.Refused || a.Owner != "i-1" {
		t.Errorf("by its owner: %+v", a)
	}
	if !h.save(t, "i-2", 2, takingOver("of i-1")) {
		t.Fatal("the takeover was refused")
	}
	if a := appendBy(t, h, 2, previous); a.Seq != 2 || !a.Refused || a.Owner != "i-2" {
		t.Errorf("by the previous owner: %+v", a)
	}
	if a := appendBy(t, h, 2, store.Ownership{}); a.Seq != 3 || a.Refused || a.Owner != "i-2" {
		t.Errorf("by a job's record: %+v", a)
	}
	if a := appendBy(t, h, 3, owner); a.Seq != 4 || a.Refused {
		t.Errorf("by its owner: %+v", a)
	}
}

func testOutboxExpires(t *testing.T, h *Harness) {
	p := store.AppendParams{Session: session1, Body: []byte("x"), Keep: h.Timing.Presence}
	if _, err := h.Store.Append(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	h.Wait(h.Timing.Presence + h.Slack)
	if got, err := h.Store.Read(t.Context(), store.ReadParams{Session: session1}); err != nil || len(got) != 0 {
		t.Errorf("read: %v, %v", got, err)
	}
}

func testOutboxKeptBySaves(t *testing.T, h *Harness) {
	put := func(index int64) int64 {
		t.Helper()
		a, err := h.Store.Append(t.Context(),
			store.AppendParams{Session: session1, Index: index, Body: []byte("x"), Keep: h.Timing.Presence})
		if err != nil {
			t.Fatal(err)
		}
		return a.Seq
	}
	h.save(t, "i-1", 1, starting)
	put(0)
	for range 3 {
		h.Wait(h.Timing.Presence * 2 / 3)
		if !h.save(t, "i-1", 1, func(p *store.SaveParams) { p.Known = 1 }) {
			t.Fatal("the save of the owner was refused")
		}
	}
	if seq := put(1); seq != 2 {
		t.Errorf("the stream ends at %d, want 2", seq)
	}
	h.Wait(h.Timing.Presence + h.Slack)
	if !h.save(t, "i-1", 1, func(p *store.SaveParams) { p.Known = 2 }) {
		t.Fatal("the save of the owner after a loss was refused")
	}
	if seq := put(2); seq != 3 {
		t.Errorf("the stream ends at %d, want 3", seq)
	}
	got, err := h.Store.Read(t.Context(), store.ReadParams{Session: session1, After: 1})
	if err != nil || len(got) != 1 || got[0].Seq != 3 {
		t.Errorf("the stream has %+v, %v", got, err)
	}
}

func testAcknowledgedMessagesAreDropped(t *testing.T, h *Harness) {
	h.startSession(t, session1)
	for i := range int64(5) {
		h.appendMessage(t, store.AppendParams{Session: session1, Index: i, Body: []byte("x")})
	}
	ack := func(seq int64) {
		t.Helper()
		held, err := h.Store.SaveSession(t.Context(), store.SaveParams{
			Session: session1, Ownership: store.Ownership{Owner: "i-1", Epoch: 1}, Body: []byte("x"), Known: 5, Acked: seq,
			Keep: h.Timing.Presence,
		})
		if err != nil || !held {
			t.Fatalf("held %v, %v", held, err)
		}
	}
	ack(3)
	ack(2) // an older acknowledgement changes nothing
	if got := fmt.Sprint(h.positions(t, session1)); got != "[4 5]" {
		t.Errorf("after an acknowledgement of 3 there are %s", got)
	}
	ack(5)
	if got := h.positions(t, session1); got != nil {
		t.Errorf("after an acknowledgement of all there are %v", got)
	}
	if a := h.appendMessage(t, store.AppendParams{Session: session1, Index: 5, Body: []byte("x")}); a.Seq != 6 {
		t.Errorf("the next message: %+v", a)
	}
	if a := h.appendMessage(t, store.AppendParams{Session: session1, Index: 2, Body: []byte("again")}); a.Seq != 6 || !a.Exists {
		t.Errorf("a repeated append of an acknowledged message: %+v", a)
	}
	if got := fmt.Sprint(h.positions(t, session1)); got != "[6]" {
		t.Errorf("after that there are %s", got)
	}
}

func testLongOutbox(t *testing.T, h *Harness) {
	const n = 2600
	var end store.Appended
	for i := range int64(n) {
		var err error
		p := store.AppendParams{Session: session1, Index: i, Body: fmt.Appendf(nil, "m%d", i), Keep: h.Timing.Retention}
		if end, err = h.Store.Append(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	if end.Seq != n {
		t.Errorf("the stream ends at %d, want %d", end.Seq, n)
	}
	got, err := h.Store.Read(t.Context(), store.ReadParams{Session: session1, After: n - 1000})
	if err != nil || len(got) != 1000 || got[0].Seq != n-999 || string(got[999].Body) != fmt.Sprintf("m%d", n-1) {
		t.Errorf("the last thousand messages: %d, %v", len(got), err)
	}
	if got, err = h.Store.Read(t.Context(), store.ReadParams{Session: session1}); err != nil || len(got) < 1000 || len(got) > n-200 {
		t.Errorf("%d messages are kept: %v", len(got), err)
	}
}

func testOutboxMaxBytes(t *testing.T, h *Harness) {
	body := bytes.Repeat([]byte("x"), 1000)
	for i := range int64(10) {
		a := h.appendMessage(t, store.AppendParams{Session: session1, Index: i, Body: body, MaxBytes: 3500})
		if a.Seq != i+1 {
			t.Errorf("append %d: %+v", i, a)
		}
	}
	if got := fmt.Sprint(h.positions(t, session1)); got != "[8 9 10]" {
		t.Errorf("after ten messages there are %s", got)
	}
	h.appendMessage(t, store.AppendParams{Session: session1, Index: 10, Body: bytes.Repeat(body, 5), MaxBytes: 3500})
	if got := fmt.Sprint(h.positions(t, session1)); got != "[11]" {
		t.Errorf("after a message that is larger than the maximum there are %s, want only that one", got)
	}
	h.appendMessage(t, store.AppendParams{Session: session1, Index: 11, Body: body, MaxBytes: 3500})
	if got := fmt.Sprint(h.positions(t, session1)); got != "[12]" {
		t.Errorf("after the next message there are %s", got)
	}
}

func testMessagesThatEnterTogetherStay(t *testing.T, h *Harness) {
	body := bytes.Repeat([]byte("x"), 1000)
	h.appendMessage(t, store.AppendParams{Session: session1, Index: 0, Body: body, MaxBytes: 3500})
	for i := range int64(6) {
		h.appendMessage(t, store.AppendParams{Session: session1, Index: 7 - i, Body: body, MaxBytes: 3500})
	}
	h.appendMessage(t, store.AppendParams{Session: session1, Index: 1, Body: body, MaxBytes: 3500})
	if got := fmt.Sprint(h.positions(t, session1)); got != "[2 3 4 5 6 7 8]" {
		t.Errorf("after the message that the others waited for there are %s", got)
	}
	if a := h.appendMessage(t, store.AppendParams{Session: session1, Index: 1, Body: body, MaxBytes: 3500}); !a.Exists {
		t.Errorf("the same append repeated: %+v", a)
	}
	if got := fmt.Sprint(h.positions(t, session1)); got != "[2 3 4 5 6 7 8]" {
		t.Errorf("after the repeated append there are %s", got)
	}
	h.appendMessage(t, store.AppendParams{Session: session1, Index: 8, Body: body, MaxBytes: 3500})
	if got := fmt.Sprint(h.positions(t, session1)); got != "[7 8 9]" {
		t.Errorf("after the next message there are %s", got)
	}
}

// appendMessage appends a message that is kept for the retention.
func (h *Harness) appendMessage(t *testing.T, p store.AppendParams) store.Appended {
	t.Helper()
	p.Keep = h.Timing.Retention
	a, err := h.Store.Append(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// positions returns the positions of the messages in the stream of a session.
func (h *Harness) positions(t *testing.T, session core.SessionRef) (list []int64) {
	t.Helper()
	messages, err := h.Store.Read(t.Context(), store.ReadParams{Session: session})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		list = append(list, m.Seq)
	}
	return list
}
