package client_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/wire"
)

// Durations that overflow count as very long.
func TestExtremeDurations(t *testing.T) {
	t.Parallel()
	f := newFakeScheduler(t, func(p *schedulerConn) {
		l := defaultLimits
		l.ResumeMS, l.IdleMS, l.PingIntervalMS, l.BufferedMS = math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxInt64
		p.answerStart(l)
		p.send(wire.GoAway{ReconnectMS: math.MaxInt64})
		p.expectAudio("aa")
		p.drop()
	}, resumeAndEnd(0, 2))
	s := startSession(t, f.config())
	s.write("aa")
	next[client.Reconnecting](s)
	next[client.SessionResumed](s)
	s.endSession()
}

// The scheduler may handle a resumption whose answer was lost after the next one, and then close the next one. That must not
// end the session, but a replacement by another process must.
func TestReplacedByOwnConnection(t *testing.T) {
	t.Parallel()
	replaced := func(p *schedulerConn) {
		p.answerResume(0, 1)
		p.closeWith(wire.CloseReplaced, wire.Error{Code: wire.StaleEpoch})
	}
	f := newFakeScheduler(t,
		func(p *schedulerConn) { p.answerStart(defaultLimits); p.drop() },
		func(p *schedulerConn) { p.expect(&wire.SessionResume{}); p.drop() }, // the resumption may still be on its way
		replaced, replaced)
	s := startSession(t, f.config())
	next[client.Reconnecting](s)
	next[client.SessionResumed](s)
	next[client.Reconnecting](s)
	next[client.SessionResumed](s)
	expectConnectionError(t, s.awaitEnd(), wire.CloseReplaced, wire.StaleEpoch)
}

// A GoAway may arrive before the answer to the first message.
func TestGoAwayBeforeAnswer(t *testing.T) {
	t.Parallel()
	f := newFakeScheduler(t, func(p *schedulerConn) {
		p.expect(&wire.SessionStart{})
		p.send(wire.GoAway{ReconnectMS: 1}, wire.SessionStarted{SessionID: "s-1", ResumeToken: "r-1", Limits: defaultLimits})
		_, _, _ = p.read()
	}, resumeAndEnd(0, 1))
	s := startSession(t, f.config())
	if e := next[client.Reconnecting](s); goAwayText(e.Err) == "" {
		t.Errorf("got %v", e.Err)
	}
	next[client.SessionResumed](s)
	s.endSession()
}

// answerStartWithKeepalives answers session_start, and grants the keepalives that the client asks for.
func (p *schedulerConn) answerStartWithKeepalives() {
	p.t.Helper()
	var start wire.SessionStart
	p.expect(&start)
	p.send(wire.SessionStarted{
		SessionID: "s-1", ResumeToken: "r-1", Langs: start.Langs, Audio: start.Audio, Limits: wire.SessionLimits{
			FrameBytes: wire.MaxFrame, ResumeMS: 60_000, UtteranceMS: 60_000, ResultTimeoutMS: 30_000, PingIntervalMS: 15_000,
		}, KeepaliveMS: start.KeepaliveMS,
	})
}

// A scheduler that promised keepalives and sends nothing is gone, before its presence has ended. The connection is not closed in an orderly
// way.
func TestMissingKeepalivesReconnect(t *testing.T) {
	testWithFakeTime(t, func(t *testing.T) {
		closed := make(chan struct{})
		f := newInMemoryScheduler(t, func(p *schedulerConn) {
			p.answerStartWithKeepalives()
			for range 10 {
				time.Sleep(1400 * time.Millisecond) // never at the time of a check of the client
				p.send(wire.Keepalive{})
			}
			<-closed
		}, func(p *schedulerConn) {
			p.answerResumeWith(0, wire.SessionResumed{SessionID: "s-1", Recovered: true, NextAudioSeq: 1, KeepaliveMS: 1500})
			<-closed
		}, resumeAndEnd(0, 1))
		s := startSession(t, f.config())
		for _, want := range []time.Duration{14*time.Second + 3750*time.Millisecond, 3750 * time.Millisecond} {
			at := time.Now()
			next[client.Reconnecting](s)
			if took := time.Since(at); took != want {
				t.Errorf("noticed after %v, want %v", took, want)
			}
			next[client.SessionResumed](s)
		}
		close(closed)
		s.endSession()
	})
}

// A message that takes longer to arrive than the silence that is allowed is no silence.
func TestLongMessageIsNoSilence(t *testing.T) {
	testWithFakeTime(t, func(t *testing.T) {
		f := newInMemoryScheduler(t, func(p *schedulerConn) {
			p.answerStartWithKeepalives()
			w, err := p.ws.Writer(t.Context(), websocket.MessageText)
			if err != nil {
				t.Error(err)
				return
			}
			for n := range 12 {
				text := strings.Repeat(" ", 16<<10)
				if n == 0 {
					text = `{"type": "of a later version",` + text
				}
				if _, err := w.Write([]byte(text)); err != nil {
					t.Errorf("part %d: %v", n, err)
				}
				time.Sleep(time.Second)
			}
			_, _ = w.Write([]byte(`"n": 1}`))
			_ = w.Close()
			p.answerEnd(wire.SessionEnded{SessionID: "s-1"})
		})
		s := startSession(t, f.config())
		time.Sleep(13 * time.Second)
		s.endSession()
	})
}

// A scheduler that does not know keepalives is gone when it no longer pings.
func TestMissingPingsReconnect(t *testing.T) {
	testWithFakeTime(t, func(t *testing.T) {
		closed := make(chan struct{})
		f := newInMemoryScheduler(t, func(p *schedulerConn) {
			l := defaultLimits
			l.PingIntervalMS = 10_000
			p.answerStart(l)
			ctx := p.ws.CloseRead(t.Context())
			for range 6 {
				time.Sleep(21 * time.Second)
				if err := p.ws.Ping(ctx); err != nil {
					t.Errorf("ping: %v", err)
				}
			}
			<-closed
		}, resumeAndEnd(0, 1))
		s := startSession(t, f.config())
		at := time.Now()
		next[client.Reconnecting](s)
		if took := time.Since(at); took != 151*time.Second {
			t.Errorf("noticed after %v, want 25 s after the last ping at 126 s", took)
		}
		close(closed)
		next[client.SessionResumed](s)
		s.endSession()
	})
}

// The scheduler begins to close connections after half of the time. Reconnects are spread over the time before that, and the
// session is resumed at once.
func TestGoAwayReconnectsWithinHalfTheTime(t *testing.T) {
	testWithFakeTime(t, func(t *testing.T) {
		var scripts []connScript
		const times = 60 // of which all are in the same five eighths of the time by chance once in 10¹²
		for i := range times {
			scripts = append(scripts, func(p *schedulerConn) {
				if i == 0 {
					p.answerStart(defaultLimits)
				} else {
					p.answerResume(0, 1)
				}
				p.send(wire.GoAway{ReconnectMS: 8000}, wire.GoAway{ReconnectMS: 1})
				_, _, _ = p.read()
			})
		}
		f := newInMemoryScheduler(t, append(scripts, resumeAndEnd(0, 1))...)
		s := startSession(t, f.config())
		var shortest, longest time.Duration = time.Hour, 0
		at := time.Now()
		for range times {
			if e := next[client.Reconnecting](s); goAwayText(e.Err) == "" {
				t.Errorf("got %v", e.Err)
			}
			took := time.Since(at)
			shortest, longest = min(shortest, took), max(longest, took)
			at = time.Now()
			next[client.SessionResumed](s)
			if took := time.Since(at); took != 0 {
				t.Errorf("resumed after %v", took)
			}
		}
		if longest > 4*time.Second || longest < 2500*time.Millisecond || shortest > 1500*time.Millisecond {
			t.Errorf("reconnected after %v to %v", shortest, longest)
		}
		s.endSession()
	})
}

// Retries become less frequent, until the session can no longer be resumed.
func TestResumeGivesUpAfterWindow(t *testing.T) {
	testWithFakeTime(t, func(t *testing.T) {
		var tried []time.Time
		scripts := []connScript{func(p *schedulerConn) { p.answerStart(defaultLimits); p.drop() }}
		f := newInMemoryScheduler(t, scripts...)
		dial := f.client.Transport
		cfg := f.config()
		cfg.HTTPClient = gatedClient(dial, func() bool { tried = append(tried, time.Now()); return len(tried) == 1 })
		s := startSession(t, cfg)
		at := time.Now()
		next[client.Reconnecting](s)
		err := s.awaitEnd()
		var lost *client.ConnectionError
		if !errors.As(err, &lost) || !errors.Is(err, errRefused) || !strings.Contains(err.Error(), "1m0s") {
			t.Errorf("ended with %v", err)
		}
		if took := time.Since(at); took < time.Minute || took > time.Minute+5*time.Second {
			t.Errorf("gave up after %v", took)
		}
		if n := len(tried); n < 14 || n > 80 {
			t.Errorf("%d attempts", n)
		}
		for i := 1; i < len(tried); i++ {
			bound := min(100*time.Millisecond<<min(i-1, 6), 5*time.Second)
			if took := tried[i].Sub(tried[i-1]); i > 1 && took > bound {
				t.Errorf("attempt %d after %v, want at most %v", i, took, bound)
			}
		}
	})
}

// The first retry is soon but not at once, because other sessions lost their connections too.
func TestFirstRetryIsSoonAndJittered(t *testing.T) {
	testWithFakeTime(t, func(t *testing.T) {
		const times = 40
		scripts := []connScript{func(p *schedulerConn) { p.answerStart(defaultLimits); p.drop() }}
		for range times - 1 {
			scripts = append(scripts, func(p *schedulerConn) {
				p.answerResume(0, 1)
				time.Sleep(6 * time.Second) // long enough to reset the backoff
				p.drop()
			})
		}
		f := newInMemoryScheduler(t, append(scripts, resumeAndEnd(0, 1))...)
		s := startSession(t, f.config())
		var shortest, longest time.Duration = time.Hour, 0
		for range times {
			next[client.Reconnecting](s)
			at := time.Now()
			next[client.SessionResumed](s)
			took := time.Since(at)
			shortest, longest = min(shortest, took), max(longest, took)
		}
		if longest > 100*time.Millisecond || longest < 50*time.Millisecond || shortest > 50*time.Millisecond {
			t.Errorf("resumed after %v to %v, want anything up to 100 ms", shortest, longest)
		}
		s.endSession()
	})
}

// A scheduler that accepts the connection and does not answer is given up.
func TestSilentSchedulerTimesOut(t *testing.T) {
	testWithFakeTime(t, func(t *testing.T) {
		f := newInMemoryScheduler(t,
			func(p *schedulerConn) { p.answerStart(defaultLimits); p.drop() },
			func(p *schedulerConn) { p.expect(&wire.SessionResume{}); _, _, _ = p.read() },
			resumeAndEnd(0, 1))
		s := startSession(t, f.config())
		at := time.Now()
		next[client.Reconnecting](s)
		next[client.SessionResumed](s)
		if took := time.Since(at); took < 10*time.Second || took > 11*time.Second {
			t.Errorf("resumed after %v", took)
		}
		s.endSession()
	})
}
