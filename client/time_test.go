package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/wire"
)

// inBubble runs a test in which time passes only when everybody waits.
func inBubble(t *testing.T, test func(*testing.T)) {
	t.Parallel()
	synctest.Test(t, test)
}

// drain takes all audio until the session ends.
func drain(p *peer, each func(audio []byte)) {
	for {
		typ, body, err := p.read()
		if err != nil {
			return
		}
		if typ == 2 {
			each(body)
		} else if kind, _ := wire.TypeOf(body); kind == "session_end" {
			p.send(wire.SessionEnded{SessionID: "s-1"})
			_ = p.conn.Close(1000, "")
			return
		}
	}
}

// TestPace: a file is copied as fast as it sounds, and never further ahead than the limit.
func TestPace(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const second = 32000
		var began time.Time
		var heard, ahead time.Duration
		f := newPipedFake(t, func(p *peer) {
			l := limits
			l.BufferedMS = 2000
			p.begin(l)
			drain(p, func(audio []byte) {
				if heard == 0 {
					began = time.Now()
				}
				heard += time.Duration(len(audio)) * time.Second / second
				ahead = max(ahead, heard-time.Since(began))
			})
		})
		l := start(t, f.config())
		at := time.Now()
		if _, err := io.Copy(l, bytes.NewReader(make([]byte, 30*second))); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(at); took < 28*time.Second || took > 30*time.Second {
			t.Errorf("30 s of audio took %v", took)
		}
		time.Sleep(time.Minute) // silence earns nothing
		at = time.Now()
		l.say(strings.Repeat("a", 10*second))
		if took := time.Since(at); took < 8*time.Second || took > 10*time.Second {
			t.Errorf("10 s of audio after a silence took %v", took)
		}
		l.end()
		if heard != 40*time.Second || ahead > 2*time.Second || ahead < time.Second {
			t.Errorf("%v were heard, up to %v ahead", heard, ahead)
		}
	})
}

// TestKeepalive: somebody who is silent is there.
func TestKeepalive(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newPipedFake(t, func(p *peer) {
			l := limits
			l.IdleMS = 30_000
			p.begin(l)
			at := time.Now()
			for range 3 {
				p.expect(&wire.SessionKeepalive{})
				if took := time.Since(at); took != 10*time.Second {
					t.Errorf("a keepalive after %v", took)
				}
				at = time.Now()
			}
			p.audio("aa")
			p.expect(&wire.SessionKeepalive{})
			if took := time.Since(at); took != 14*time.Second {
				t.Errorf("a keepalive %v after the one before, with audio 4 s after that", took)
			}
			p.end(wire.SessionEnded{SessionID: "s-1"})
		})
		l := start(t, f.config())
		time.Sleep(34 * time.Second)
		l.say("aa")
		time.Sleep(11 * time.Second)
		l.end()
	})
}

// TestSilence: a scheduler that is not even pinging is not there.
func TestSilence(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		gone := make(chan struct{})
		f := newPipedFake(t, func(p *peer) {
			l := limits
			l.PingIntervalMS = 10_000
			p.begin(l)
			ctx := p.conn.CloseRead(t.Context())
			for range 6 {
				time.Sleep(20 * time.Second)
				if err := p.conn.Ping(ctx); err != nil {
					t.Errorf("ping: %v", err)
				}
			}
			<-gone
		}, ending(0, 1))
		l := start(t, f.config())
		at := time.Now()
		want[client.Reconnecting](l)
		if took := time.Since(at); took != 145*time.Second {
			t.Errorf("noticed after %v, want 25 s after the last ping at 120 s", took)
		}
		close(gone)
		want[client.SessionResumed](l)
		l.end()
	})
}

// TestGoAway: whoever is asked to go does, at some moment of the first half of the time it is given, for in the second the
// scheduler closes those who stay; and resumes at once.
func TestGoAway(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var scripts []script
		const times = 40
		for i := range times {
			scripts = append(scripts, func(p *peer) {
				if i == 0 {
					p.begin(limits)
				} else {
					p.resume(0, 1)
				}
				p.send(wire.GoAway{ReconnectMS: 8000}, wire.GoAway{ReconnectMS: 1})
				_, _, _ = p.read()
			})
		}
		f := newPipedFake(t, append(scripts, ending(0, 1))...)
		l := start(t, f.config())
		var least, most time.Duration = time.Hour, 0
		at := time.Now()
		for range times {
			if e := want[client.Reconnecting](l); again(e.Err) == "" {
				t.Errorf("got %v", e.Err)
			}
			took := time.Since(at)
			least, most = min(least, took), max(most, took)
			at = time.Now()
			want[client.SessionResumed](l)
			if took := time.Since(at); took != 0 {
				t.Errorf("resumed after %v", took)
			}
		}
		if most > 4*time.Second || most < 2500*time.Millisecond || least > 1500*time.Millisecond {
			t.Errorf("went after %v to %v", least, most)
		}
		l.end()
	})
}

// again is what an error says about a request to connect anew.
func again(err error) string {
	if err != nil && strings.Contains(err.Error(), "asked to reconnect") {
		return err.Error()
	}
	return ""
}

// TestGivingUp: connections are tried again less and less often, until the session cannot be resumed any more.
func TestGivingUp(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var tried []time.Time
		scripts := []script{func(p *peer) { p.begin(limits); p.cut() }}
		f := newPipedFake(t, scripts...)
		dial := f.client.Transport
		cfg := f.config()
		cfg.HTTPClient = clientWith(dial, func() bool { tried = append(tried, time.Now()); return len(tried) == 1 })
		l := start(t, cfg)
		at := time.Now()
		want[client.Reconnecting](l)
		err := l.over()
		var how *client.ConnectionError
		if !errors.As(err, &how) || !errors.Is(err, errNobody) || !strings.Contains(err.Error(), "1m0s") {
			t.Errorf("ended with %v", err)
		}
		if took := time.Since(at); took < time.Minute || took > time.Minute+5*time.Second {
			t.Errorf("gave up after %v", took)
		}
		if n := len(tried); n < 14 || n > 80 {
			t.Errorf("tried %d times", n)
		}
		for i := 1; i < len(tried); i++ {
			most := min(100*time.Millisecond<<min(i-1, 6), 5*time.Second)
			if took := tried[i].Sub(tried[i-1]); i > 1 && took > most {
				t.Errorf("try %d came after %v, want at most %v", i, took, most)
			}
		}
	})
}

// TestPromptly: the first try after a cut comes soon, and not at once: others were cut too.
func TestPromptly(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const times = 40
		scripts := []script{func(p *peer) { p.begin(limits); p.cut() }}
		for range times - 1 {
			scripts = append(scripts, func(p *peer) {
				p.resume(0, 1)
				time.Sleep(6 * time.Second) // it is a good connection
				p.cut()
			})
		}
		f := newPipedFake(t, append(scripts, ending(0, 1))...)
		l := start(t, f.config())
		var least, most time.Duration = time.Hour, 0
		for range times {
			want[client.Reconnecting](l)
			at := time.Now()
			want[client.SessionResumed](l)
			took := time.Since(at)
			least, most = min(least, took), max(most, took)
		}
		if most > 100*time.Millisecond || most < 50*time.Millisecond || least > 50*time.Millisecond {
			t.Errorf("resumed after %v to %v, want anything up to 100 ms", least, most)
		}
		l.end()
	})
}

// TestNoAnswer: a scheduler that takes the connection and says nothing is left.
func TestNoAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newPipedFake(t,
			func(p *peer) { p.begin(limits); p.cut() },
			func(p *peer) { p.expect(&wire.SessionResume{}); _, _, _ = p.read() },
			ending(0, 1))
		l := start(t, f.config())
		at := time.Now()
		want[client.Reconnecting](l)
		want[client.SessionResumed](l)
		if took := time.Since(at); took < 10*time.Second || took > 11*time.Second {
			t.Errorf("resumed after %v", took)
		}
		l.end()
	})
}

// TestContextEndsTheSession, whoever waits for what.
func TestContextEndsTheSession(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newPipedFake(t, func(p *peer) {
			l := limits
			l.BufferedMS = 1000
			p.begin(l)
			drain(p, func([]byte) {})
		})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		s, err := client.Start(ctx, f.config())
		if err != nil {
			t.Fatal(err)
		}
		if n, err := s.Write(make([]byte, 32000*60)); !errors.Is(err, context.DeadlineExceeded) || n < 5*32000 || n > 6*32000 {
			t.Errorf("wrote %d bytes: %v", n, err)
		}
		for e, err := range s.Events() {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, %v", e, err)
			}
		}
		_ = s.Close()
	})
}
