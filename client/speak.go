package client

import (
	"context"
	"fmt"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// Write says audio of the open utterance; the first of it begins one. It cuts audio into frames, and waits while
// that would run too far ahead of real time, so a file can be copied into it. While the connection is lost it keeps what is
// written, up to a bound, and then waits. It waits no longer than the session lives.
//
// Opus is not cut and not paced: each Write is one packet, and the caller writes at the pace of speech.
func (s *Session) Write(audio []byte) (int, error) {
	if s.sound.packets && len(audio) > s.sound.most {
		return 0, fmt.Errorf("client: a packet of %d bytes is too large; %d is the most", len(audio), s.sound.most)
	}
	written := 0
	for written < len(audio) {
		n, err := s.write(audio[written:])
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// write takes what one frame holds, as soon as it may.
func (s *Session) write(audio []byte) (int, error) {
	for {
		n, room, wait, err := s.tryWrite(audio)
		if n > 0 || err != nil {
			return n, err
		}
		if err := s.waitFor(room, wait); err != nil {
			return 0, err
		}
	}
}

// waitFor waits until there is room, or for a time if there is one.
func (s *Session) waitFor(room <-chan struct{}, wait time.Duration) error {
	var later <-chan time.Time
	if wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		later = t.C
	}
	select {
	case <-room:
	case <-later:
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
	return nil
}

// tryWrite takes what one frame holds, or says what to wait for: room in the journal, or some time.
func (s *Session) tryWrite(audio []byte) (n int, room <-chan struct{}, wait time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.speechless(keptSize); err != nil {
		return 0, nil, 0, err
	}
	if s.out.backlog() {
		if s.room == nil {
			s.room = make(chan struct{})
		}
		return 0, s.room, 0, nil
	}
	n = min(len(audio), s.sound.most-len(s.rest))
	whole := len(s.rest) + n
	whole -= whole % s.sound.sample
	if whole == 0 {
		s.rest = append(s.rest, audio[:n]...)
		return n, nil, 0, nil
	}
	now := time.Now()
	if wait := s.pace.take(now, s.sound.length(whole)); wait > 0 {
		return 0, nil, wait, nil
	}
	data := make([]byte, 0, len(s.rest)+n)
	data = append(append(data, s.rest...), audio[:n]...)
	s.rest = append(s.rest[:0], data[whole:]...)
	s.out.add(entry{audio: true, data: data[:whole], begin: s.begin, written: now})
	s.begin, s.open = wire.UtteranceStart{}, true
	signal(s.more)
	return n, nil, 0, nil
}

// speechless says why nothing can be said, if no more than so much may be kept. The caller holds the lock.
func (s *Session) speechless(most int) error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	if s.ended {
		return ErrEnded
	}
	s.out.trim(time.Now())
	if s.out.size >= most {
		return ErrTooMuchAudio
	}
	return nil
}

// Begin says what the next utterance is called and which language it is in. It is not needed where the session's own
// will do. An utterance that is open is ended. The names go with the first audio, which makes the utterance.
func (s *Session) Begin(u wire.UtteranceStart) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.speechless(allSize); err != nil {
		return err
	}
	s.commit()
	s.begin = u
	return nil
}

// Commit ends the open utterance. Without audio since the last one there is nothing to end, and nothing is sent.
func (s *Session) Commit() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.speechless(allSize); err != nil {
		return err
	}
	s.commit()
	return nil
}

// commit is a frame without audio, counted like any. If the scheduler ended the utterance before, it does nothing.
func (s *Session) commit() {
	s.rest = s.rest[:0]
	if !s.open {
		return
	}
	s.open = false
	s.out.add(entry{audio: true, final: true, written: time.Now()})
	signal(s.more)
}

// Cancel gives up an utterance whose result has not come, or, if it names none, the open one. It then ends with a Failed
// whose reason is CANCELLED.
func (s *Session) Cancel(c wire.SessionCancel) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c == (wire.SessionCancel{}) {
		s.rest, s.begin = s.rest[:0], wire.UtteranceStart{}
		if !s.open {
			return s.speechless(allSize)
		}
	}
	if err := s.say(c); err != nil {
		return err
	}
	if c == (wire.SessionCancel{}) {
		s.open = false
	}
	return nil
}

// Update changes the session from the next utterance on.
func (s *Session) Update(u wire.SessionUpdate) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.say(u)
}

// End ends the session: an open utterance is committed, the results still come, and then Ended. To call it again does
// nothing.
func (s *Session) End() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil
	}
	if err := s.say(wire.SessionEnd{}); err != nil {
		return err
	}
	s.ended = true
	return nil
}

// say puts a message into its place among the audio. The caller holds the lock.
func (s *Session) say(f wire.Frame) error {
	if err := s.speechless(allSize); err != nil {
		return err
	}
	s.out.add(entry{frame: f, written: time.Now()})
	signal(s.more)
	return nil
}
