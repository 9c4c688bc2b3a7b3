package server

import (
	"slices"

	"github.com/lingua-scheduler/lingua/wire"
)

// mostSpeaking is of how many results a node may owe the speech. One that promises more and sends none has the oldest
// forgotten.
const mostSpeaking = 256

// speakers are the attempts whose results were taken and whose speech is to come, in the format that the result named.
type speakers struct {
	owed  map[wire.ActiveJob]wire.AudioFormat
	order []wire.ActiveJob
}

// expect waits for the speech of an attempt.
func (s *speakers) expect(job wire.ActiveJob, format wire.AudioFormat) {
	if s.owed == nil {
		s.owed = make(map[wire.ActiveJob]wire.AudioFormat)
	}
	if _, owed := s.owed[job]; owed {
		return
	}
	if len(s.order) == mostSpeaking {
		delete(s.owed, s.order[0])
		s.order = slices.Delete(s.order, 0, 1)
	}
	s.owed[job] = format
	s.order = append(s.order, job)
}

// format is the format of speech that is to come; false: none is.
func (s *speakers) format(job wire.ActiveJob) (f wire.AudioFormat, owed bool) {
	f, owed = s.owed[job]
	return f, owed
}

// done is the end of it.
func (s *speakers) done(job wire.ActiveJob) {
	delete(s.owed, job)
	s.order = slices.DeleteFunc(s.order, func(other wire.ActiveJob) bool { return other == job })
}
