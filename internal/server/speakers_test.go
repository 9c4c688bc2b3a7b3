package server

import (
	"fmt"
	"testing"

	"github.com/lingua-scheduler/lingua/wire"
)

// TestANodeThatOwesSpeech and never sends it is not waited for for ever.
func TestANodeThatOwesSpeech(t *testing.T) {
	t.Parallel()
	job := func(n int) wire.ActiveJob { return wire.ActiveJob{JobID: fmt.Sprint(n), AttemptID: 1} }
	var s speakers
	for n := range 3 * mostSpeaking {
		s.expect(job(n), wire.AudioFormat{SampleRate: n})
		s.expect(job(n), wire.AudioFormat{})
		if n%3 == 0 {
			s.done(job(n))
		}
		s.done(job(-1))
	}
	if len(s.owed) > mostSpeaking || len(s.order) != len(s.owed) {
		t.Errorf("%d are waited for, in an order of %d", len(s.owed), len(s.order))
	}
	last := 3*mostSpeaking - 1
	has := func(n int) bool {
		format, owed := s.format(job(n))
		return owed && format.SampleRate == n
	}
	if !has(last) || has(last-2) || has(1) {
		t.Errorf("the last %v, one that has ended %v, the first %v", has(last), has(last-2), has(1))
	}
}
