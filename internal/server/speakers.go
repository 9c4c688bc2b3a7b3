package server

import (
	"slices"

	"github.com/lingua-scheduler/lingua/wire"
)

// mostSpeaking is of how many results a node may owe the speech. One that promises more and sends none has the oldest
// forgotten.
const mostSpeaking = 256

// speakers are the attempts whose results were taken and whose speech is to come.
type speakers struct {
	owed  map[wire.ActiveJob]bool
	order []wire.ActiveJob
}

// expect waits for the speech of an attempt.
func (s *speakers) expect(job wire.ActiveJob) {
	if s.owed == nil {
		s.owed = make(map[wire.ActiveJob]bool)
	}
	if s.owed[job] {
		return
	}
	if len(s.order) == mostSpeaking {
		delete(s.owed, s.order[0])
		s.order = slices.Delete(s.order, 0, 1)
	}
	s.owed[job] = true
	s.order = append(s.order, job)
}

// has reports whether the speech of an attempt is to come.
func (s *speakers) has(job wire.ActiveJob) bool { return s.owed[job] }

// done is the end of it.
func (s *speakers) done(job wire.ActiveJob) {
	delete(s.owed, job)
	s.order = slices.DeleteFunc(s.order, func(other wire.ActiveJob) bool { return other == job })
}
