package session

import (
	"slices"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// closedUtterance is what is remembered of an utterance that has ended, to know where audio belongs that comes after its
// end. It is saved with the session.
type closedUtterance struct {
	Name    string // the client's, if it has one
	Turn    int64  // of its first part; 0: it made no job
	Request core.RequestID
	Src     core.Lang
	Parts   int    // further parts that were made of audio after its end
	Reason  string // why it ended
	// Final says that the client ended it, so that audio after its end is late. Else that audio is a further part.
	Final bool
}

// maxClosed is how many ended utterances are remembered.
const maxClosed = 64

// recall finds the last ended utterance of a name; nil when there is none.
func (s *Session) recall(name string) *closedUtterance {
	for i := len(s.closed) - 1; i >= 0 && name != ""; i-- {
		if s.closed[i].Name == name {
			return &s.closed[i]
		}
	}
	return nil
}

// lastClosed is the utterance that ended last; nil when there is none.
func (s *Session) lastClosed() *closedUtterance {
	if len(s.closed) == 0 {
		return nil
	}
	return &s.closed[len(s.closed)-1]
}

// remember notes that an utterance has ended. A further part of one is that one.
func (s *Session) remember(u *utterance, end ending) {
	c := closedUtterance{Name: u.id, Turn: u.turn, Request: u.request, Src: u.direction.Src, Reason: end.reason, Final: end.final}
	if u.turn == 0 {
		c.Src = u.src // one that begins anew has the language that the session has then
	}
	if u.continues != nil {
		c = *u.continues
		c.Reason, c.Final = end.reason, end.final
		if i := slices.IndexFunc(s.closed, func(old closedUtterance) bool { return old.Turn == c.Turn && c.Turn > 0 }); i >= 0 {
			s.closed = slices.Delete(s.closed, i, i+1)
		}
	}
	if s.closed = append(s.closed, c); len(s.closed) > maxClosed {
		s.closed = slices.Delete(s.closed, 0, 1)
	}
}

// closeFinally has audio be late from now on that names an utterance, which is known by the turn of its first part.
func (s *Session) closeFinally(first int64) {
	for i := range s.closed {
		if c := &s.closed[i]; c.Turn == first && !c.Final {
			c.Final = true
			s.change()
		}
	}
}

// forgetClosed drops the memory of an utterance that has ended.
func (s *Session) forgetClosed(name string) {
	s.closed = slices.DeleteFunc(s.closed, func(c closedUtterance) bool { return c.Name == name })
}

// continued is the utterance whose further part unnamed audio is: the last one, if its client named it and a pause in
// the audio ended it, or if it was as long as it may be. If that pause was before the first word, it is enough that its
// client said anything of it. nil: the audio begins an utterance of its own.
func (s *Session) continued() *closedUtterance {
	c := s.lastClosed()
	if c == nil || c.Final {
		return nil
	}
	described := c.Name != "" || c.Turn == 0 && (c.Src != "" || c.Request != "")
	if c.Reason == byLength && c.Turn > 0 || c.Reason == byPause && described {
		return c
	}
	return nil
}
