package client

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/wire"
)

const (
	// firstPause and longestPause bound the wait before a connection is tried again; it is a random part of them.
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
	// startTries is how often a session is tried to be started at a scheduler that was reached.
	startTries = 5
	// shortestIdle bounds how often the scheduler is told that somebody is there.
	shortestIdle = 100 * time.Millisecond
)

// errOver says that the session came to its end.
var errOver = errors.New("the session is over")

// begun starts the session, at a scheduler that may be about to stop.
func (s *Session) begun() (*link, error) {
	for reached, missed := 0, 0; ; {
		l, err := s.connect(s.cfg.Start, &s.started)
		if err == nil {
			l.quiet = s.quiet()
			return l, nil
		}
		if s.ctx.Err() != nil {
			return nil, context.Cause(s.ctx)
		}
		s.where.next()
		if absent(err) {
			missed++
		} else {
			missed = 0
			reached++
		}
		if reached == startTries || missed == len(s.where.all) || !again(err) && !absent(err) {
			return nil, err
		}
		if missed == 0 && !s.pause(reached-1) {
			return nil, context.Cause(s.ctx)
		}
	}
}

// live holds the conversation, over as many connections as it takes.
func (s *Session) live(l *link) error {
	tries := 0
	for {
		made := time.Now()
		err := s.converse(l)
		if s.ctx.Err() != nil || !again(err) {
			return err
		}
		if time.Since(made) > longestPause {
			tries = 0 // else somebody takes us in only to throw us out
		}
		s.log.Info("connection lost", "error", err)
		if !s.inbox.put(s.ctx, Reconnecting{Err: err}, 0) {
			return err
		}
		if l, tries, err = s.resume(err, tries); err != nil {
			return err
		}
	}
}

// resume connects again and has the session go on, within the time there is for that.
func (s *Session) resume(cut error, tries int) (*link, int, error) {
	window := milliseconds(s.started.Limits.ResumeMS)
	until := time.Now().Add(window)
	soon := errors.Is(cut, errGoAway) // that was a random moment already
	s.where.stayAway(retryAfter(cut))
	if gone(cut) {
		s.where.next()
	}
	for ; ; tries++ {
		if !s.waitAtLeast(min(s.where.wait(), time.Until(until))) {
			return nil, tries, cut
		}
		if !soon && !s.pause(tries/len(s.where.all)) { // each address is tried soon before any is tried late
			return nil, tries, cut
		}
		soon = false
		if !time.Now().Before(until) {
			return nil, tries, fmt.Errorf("client: the session could not be resumed within %v; start another: %w", window, cut)
		}
		var answer wire.SessionResumed
		l, err := s.connect(wire.SessionResume{
			SessionID: s.started.SessionID, ResumeToken: s.started.ResumeToken, LastSeq: s.heard.seq,
		}, &answer)
		if err == nil {
			l.quiet = s.quiet()
			if err = s.resumed(&answer); err == nil {
				return l, tries + 1, nil
			}
			l.close()
		}
		if s.ctx.Err() != nil || !again(err) && (!absent(err) || !s.where.others()) {
			return nil, tries, err
		}
		s.where.stayAway(retryAfter(err))
		s.where.next()
		cut = err
	}
}

// gone reports whether a connection was lost because there is nobody any more, or soon will not be: the next address is
// better. Else the session is likely to be found where it was, with its audio.
func gone(cut error) bool {
	var lost *ConnectionError
	return errors.Is(cut, errGoAway) || errors.Is(cut, errSilent) || errors.As(cut, &lost) && lost.Code == wire.CloseDraining
}

// resumed takes up what the scheduler says is missing. Of what is not kept any more it says so.
func (s *Session) resumed(r *wire.SessionResumed) error {
	s.mu.Lock()
	s.acked = s.got // the resume has said so
	from := r.NextAudioSeq
	var gone []wire.Frame
	for _, span := range r.AudioNeeded {
		if span.FirstSeq < s.out.first && s.numbered() {
			gone = append(gone, wire.AudioGone{UtteranceIndex: span.UtteranceIndex})
			from = s.out.first
		}
	}
	resent, err := s.out.rewind(from)
	s.first = gone
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if !r.Recovered {
		s.heard.seq = min(s.heard.seq, r.LastSeq) // what comes then has not been here
	}
	s.log.Info("session resumed", "recovered", r.Recovered, "frames_resent", resent)
	if !s.inbox.put(s.ctx, SessionResumed{Recovered: r.Recovered, ResentFrames: resent}, 0) {
		return context.Cause(s.ctx)
	}
	return nil
}

// converse reads until the link is lost or the session over. Beside it somebody writes.
func (s *Session) converse(l *link) error {
	written := make(chan struct{})
	go func() {
		defer close(written)
		s.sendAll(l)
	}()
	defer func() {
		l.close()
		<-written
	}()
	for {
		kind, body, err := l.read(l.ctx)
		if err != nil {
			return err
		}
		err = s.hear(l, kind, body)
		if errors.Is(err, errOver) {
			l.part()
		}
		if err != nil {
			return err
		}
	}
}

// part waits for the close that follows the last message.
func (l *link) part() {
	l.quiet = partWithin
	for {
		if _, _, err := l.read(l.ctx); err != nil {
			return
		}
	}
}

// sendAll sends what there is to send, and now and then that somebody is there.
func (s *Session) sendAll(l *link) {
	every := milliseconds(s.started.Limits.IdleMS) / 3
	if every > 0 {
		every = max(every, shortestIdle)
	}
	idle := time.NewTimer(every)
	defer idle.Stop()
	if every == 0 {
		idle.Stop()
	}
	for {
		if err := s.sendFirst(l); err != nil {
			l.lingerAfter(err)
			return
		}
		e, ok := s.next()
		if !ok {
			select {
			case <-s.more:
				continue
			case <-idle.C:
				e = entry{frame: wire.SessionKeepalive{}}
			case <-l.ctx.Done():
				return
			}
		}
		if err := l.sendEntry(e, s.numbered()); err != nil {
			l.lingerAfter(err)
			return
		}
		if every > 0 {
			idle.Reset(every)
		}
	}
}

// next takes what is to be sent, and lets those know who wait for room.
func (s *Session) next() (entry, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.out.next(time.Now())
	if !s.out.backlog() && s.room != nil {
		close(s.room)
		s.room = nil
	}
	return e, ok
}

// lingerAfter waits a moment after a message could not be sent: the reader finds out too, and perhaps why.
func (l *link) lingerAfter(err error) {
	select {
	case <-time.After(partWithin):
		l.drop(err)
	case <-l.ctx.Done():
	}
}

// sendFirst sends what goes before audio: which audio is gone, and which results have come.
func (s *Session) sendFirst(l *link) error {
	s.mu.Lock()
	first := s.first
	s.first = nil
	if s.got > s.acked {
		s.acked = s.got
		first = append(first, wire.SessionResultAck{Seq: s.got})
	}
	s.mu.Unlock()
	for _, f := range first {
		if err := l.send(l.ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// numbered reports whether binary frames carry their number.
func (s *Session) numbered() bool { return s.started.Audio.Framing == wire.FramingNumbered }

// sendEntry sends audio as it is, unless there is something to say about it.
func (l *link) sendEntry(e entry, numbered bool) error {
	switch {
	case !e.audio:
		return l.send(l.ctx, e.frame)
	case e.final || e.begin != wire.UtteranceStart{}:
		return l.send(l.ctx, wire.AudioChunk{
			Seq: e.at, UtteranceID: e.begin.UtteranceID, SrcLang: e.begin.SrcLang, RequestID: e.begin.RequestID,
			Data: e.data, IsFinal: e.final,
		})
	case numbered:
		frame := binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(e.data)), uint64(e.at))
		return l.conn.Write(l.ctx, websocket.MessageBinary, append(frame, e.data...))
	}
	return l.conn.Write(l.ctx, websocket.MessageBinary, e.data)
}

// quiet is after how long without a sign a link is dead: the scheduler pings, and two pings are missing then.
func (s *Session) quiet() time.Duration {
	return milliseconds(s.started.Limits.PingIntervalMS) * 5 / 2
}

// pause waits before the next try: a random part of a time that doubles. It reports false when the session ended first.
func (s *Session) pause(tries int) bool {
	most := min(firstPause<<min(tries, 10), longestPause)
	t := time.NewTimer(rand.N(most))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.ctx.Done():
		return false
	}
}

// retryAfter is how long the scheduler said to stay away.
func retryAfter(err error) time.Duration {
	var lost *ConnectionError
	if errors.As(err, &lost) && lost.Frame != nil {
		return milliseconds(lost.Frame.RetryAfterMS)
	}
	return 0
}

// waitAtLeast waits, and reports false when the session ended first.
func (s *Session) waitAtLeast(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.ctx.Done():
		return false
	}
}

// again reports whether to connect again after an error.
func again(err error) bool {
	var lost *ConnectionError
	return errors.As(err, &lost) && lost.retry()
}

// absent reports whether there is no scheduler at an address: nobody answered at all, or somebody else did. That says
// nothing about the other addresses.
func absent(err error) bool {
	var lost *ConnectionError
	return errors.As(err, &lost) && (lost.unreached || lost.stray)
}
