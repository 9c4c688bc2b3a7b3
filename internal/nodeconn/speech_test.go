package nodeconn

import (
	"fmt"
	"testing"

	"github.com/lingua-scheduler/lingua/wire"
)

// TestExpectedSpeechIsBounded: a node that promises speech and never sends it does not grow the list.
func TestExpectedSpeechIsBounded(t *testing.T) {
	t.Parallel()
	job := func(n int) wire.ActiveJob { return wire.ActiveJob{JobID: fmt.Sprint(n), AttemptID: 1} }
	var s expectedSpeech
	for n := range 3 * maxExpectedSpeech {
		s.add(job(n), wire.AudioFormat{SampleRate: n})
		s.add(job(n), wire.AudioFormat{})
		if n%3 == 0 {
			s.remove(job(n))
		}
		s.remove(job(-1))
	}
	if len(s.formats) > maxExpectedSpeech || len(s.order) != len(s.formats) {
		t.Errorf("%d are expected, in an order of %d", len(s.formats), len(s.order))
	}
	last := 3*maxExpectedSpeech - 1
	has := func(n int) bool {
		format, expected := s.format(job(n))
		return expected && format.SampleRate == n
	}
	if !has(last) || has(last-2) || has(1) {
		t.Errorf("the last %v, one that has ended %v, the first %v", has(last), has(last-2), has(1))
	}
}
