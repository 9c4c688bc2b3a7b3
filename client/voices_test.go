package client

import (
	"fmt"
	"testing"

	"github.com/lingua-scheduler/lingua/wire"
)

// TestOpenIsBounded: a scheduler that commits and commits, and never ends an utterance, does not fill the memory.
func TestOpenIsBounded(t *testing.T) {
	t.Parallel()
	s := &Session{ctx: t.Context(), inbox: newInbox(), heard: newHeard(), out: newJournal(0)}
	for i := range int64(2 * mostOpen) {
		if err := s.hearCommitted(&wire.UtteranceCommitted{UtteranceIndex: i}, 0); err != nil {
			t.Fatal(err)
		}
		if err := s.hearPartial(&wire.Partial{UtteranceIndex: i}, 0); err != nil {
			t.Fatal(err)
		}
	}
	if n, m := len(s.heard.spans), len(s.heard.shown); n != mostOpen || m != mostOpen {
		t.Errorf("%d and %d are remembered, want %d", n, m, mostOpen)
	}
}

// TestVoicesAreForgotten: speech that never ends is not remembered without end.
func TestVoicesAreForgotten(t *testing.T) {
	t.Parallel()
	var v voices
	for i := range 10 * mostVoices {
		h := wire.BinaryHeader{ActiveJob: wire.ActiveJob{JobID: fmt.Sprint(i), AttemptID: 1}}
		if !v.first(&h) || v.first(&h) {
			t.Fatalf("the first piece of %d was not taken once", i)
		}
	}
	if len(v) != mostVoices {
		t.Errorf("%d are remembered, want %d", len(v), mostVoices)
	}
}
