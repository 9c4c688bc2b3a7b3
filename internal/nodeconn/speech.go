package nodeconn

import (
	"slices"

	"github.com/lingua-scheduler/lingua/wire"
)

// maxExpectedSpeech is for how many results a node may owe the speech. If it promises more and sends none, the oldest are
// dropped.
const maxExpectedSpeech = 256

// expectedSpeech is the attempts whose results were accepted and whose speech is to come, with the format that the result named.
type expectedSpeech struct {
	formats map[wire.ActiveJob]wire.AudioFormat
	order   []wire.ActiveJob
}

// add expects the speech of an attempt.
func (s *expectedSpeech) add(job wire.ActiveJob, format wire.AudioFormat) {
	if s.formats == nil {
		s.formats = make(map[wire.ActiveJob]wire.AudioFormat)
	}
	if _, expected := s.formats[job]; expected {
		return
	}
	if len(s.order) == maxExpectedSpeech {
		delete(s.formats, s.order[0])
		s.order = slices.Delete(s.order, 0, 1)
	}
	s.formats[job] = format
	s.order = append(s.order, job)
}

// format is the format of the speech of an attempt; false when none is expected.
func (s *expectedSpeech) format(job wire.ActiveJob) (f wire.AudioFormat, expected bool) {
	f, expected = s.formats[job]
	return f, expected
}

// remove stops expecting the speech of an attempt.
func (s *expectedSpeech) remove(job wire.ActiveJob) {
	delete(s.formats, job)
	s.order = slices.DeleteFunc(s.order, func(other wire.ActiveJob) bool { return other == job })
}
