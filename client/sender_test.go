package client_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/wire"
)

// Audio is buffered while the connection is lost. At the limit Write waits.
func TestWriteBlocksAtLimitWhileDisconnected(t *testing.T) {
	testWithFakeTime(t, func(t *testing.T) {
		const second = 192000
		var back atomic.Bool
		var got int
		f := newInMemoryScheduler(t, func(p *schedulerConn) { p.answerStart(defaultLimits); p.drop() }, func(p *schedulerConn) {
			p.answerResume(0, 1)
			readAudio(p, func(audio []byte) { got += len(audio) })
		})
		first := true
		cfg := f.config()
		cfg.HTTPClient = gatedClient(f.client.Transport, func() bool { ok := first || back.Load(); first = false; return ok })
		cfg.Start.Audio = wire.SessionAudio{SampleRate: 48000, Channels: 2}
		s := startSession(t, cfg)
		next[client.Reconnecting](s)
		written := make(chan int)
		go func() {
			n := 0
			for range 70 {
				m, err := s.Write(make([]byte, second))
				if n += m; err != nil {
					t.Error(err)
				}
			}
			written <- n
		}()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		select {
		case <-written:
			t.Error("70 s of audio were kept")
		default:
		}
		back.Store(true)
		if n := <-written; n != 70*second {
			t.Errorf("%d bytes were written", n)
		}
		next[client.SessionResumed](s)
		s.endSession()
		if got != 70*second {
			t.Errorf("%d bytes arrived", got)
		}
	})
}

func TestAudioWithoutResultsIsLimited(t *testing.T) {
	t.Parallel()
	f := newFakeScheduler(t, func(p *schedulerConn) {
		p.answerStart(defaultLimits)
		readAudio(p, func([]byte) {})
	})
	cfg := f.config()
	cfg.Start.Audio = wire.SessionAudio{SampleRate: 48000, Channels: 2}
	s := startSession(t, cfg)
	n, err := s.Write(make([]byte, 80<<20))
	if !errors.Is(err, client.ErrTooMuchAudio) || n < 63<<20 || n > 65<<20 {
		t.Errorf("%d MiB were written: %v", n>>20, err)
	}
	s.commit() // the commit is still possible
	if _, err := s.Write([]byte("aaaa")); !errors.Is(err, client.ErrTooMuchAudio) {
		t.Errorf("writing more: %v", err)
	}
	s.endSession()
}

// Frames carry their numbers, and are resent with the same ones.
func TestNumberedFrames(t *testing.T) {
	t.Parallel()
	f := newFakeScheduler(t, func(p *schedulerConn) {
		p.answerStartNumbered(defaultLimits)
		p.expectNumbered(1, "aa", "bb")
		p.drop()
	}, func(p *schedulerConn) {
		p.answerResume(0, 2)
		p.expectNumbered(2, "bb", "cc")
		p.expectFinal(4)
		p.send(committedFrame(0, 1, 4), resultFrame(1, 0))
		p.answerEnd(wire.SessionEnded{SessionID: "s-1"})
		if p.acked != 1 {
			t.Errorf("the result was acknowledged up to %d", p.acked)
		}
	})
	s := startSession(t, f.config())
	s.write("aa", "bb")
	next[client.Reconnecting](s)
	s.write("cc")
	s.commit()
	next[client.SessionResumed](s)
	next[client.UtteranceCommitted](s)
	next[client.Result](s)
	s.endSession()
}

// Audio that is no longer kept is reported as gone, and the session continues with the rest.
func TestDiscardedAudioIsReported(t *testing.T) {
	t.Parallel()
	f := newFakeScheduler(t, func(p *schedulerConn) {
		p.answerStartNumbered(defaultLimits)
		p.expectNumbered(1, "aa")
		p.expectFinal(2)
		p.send(committedFrame(0, 1, 1), resultOfFrames(1, 0, 1, 1)) // releases its audio
		p.expectNumbered(3, "bb")
		p.drop()
	}, func(p *schedulerConn) {
		// The scheduler has lost its latest state and asks for the first utterance again.
		p.answerResumeWith(1, wire.SessionResumed{
			SessionID: "s-1", Recovered: true, NextAudioSeq: 1, LastSeq: 1,
			AudioNeeded: []wire.AudioSpan{{UtteranceIndex: 0, FirstSeq: 1, LastSeq: 1}},
		})
		var gone wire.AudioGone
		p.expect(&gone)
		if gone.UtteranceIndex != 0 {
			p.fail("%+v", gone)
		}
		var last wire.AudioChunk
		p.expect(&last) // the final chunk of the first utterance is kept
		p.expectNumbered(3, "bb")
		p.expectFinal(4)
		p.answerEnd(wire.SessionEnded{SessionID: "s-1"})
	})
	s := startSession(t, f.config())
	s.write("aa")
	s.commit()
	next[client.UtteranceCommitted](s)
	next[client.Result](s)
	s.write("bb")
	next[client.Reconnecting](s)
	next[client.SessionResumed](s)
	s.commit()
	s.endSession()
}

// Audio is split at 200 ms, at the maximum size of a frame, and never within a sample.
func TestAudioIsSplitIntoFrames(t *testing.T) {
	t.Parallel()
	sized := func(bytes int64) wire.SessionLimits { l := defaultLimits; l.FrameBytes = bytes; return l }
	for name, c := range map[string]struct {
		format wire.SessionAudio
		limits wire.SessionLimits
		writes []int
		want   []int
	}{
		"200 ms":        {wire.SessionAudio{}, defaultLimits, []int{14000}, []int{6400, 6400, 1200}},
		"stereo":        {wire.SessionAudio{SampleRate: 8000, Channels: 2}, defaultLimits, []int{6404}, []int{6400, 4}},
		"frame limit":   {wire.SessionAudio{}, sized(1024 + 400), []int{700}, []int{300, 300, 100}},
		"half a sample": {wire.SessionAudio{Channels: 2}, defaultLimits, []int{3, 3, 3, 3}, []int{4, 4, 4}},
		"as written":    {wire.SessionAudio{}, defaultLimits, []int{320, 320}, []int{320, 320}},
		"packets":       {wire.SessionAudio{Encoding: "opus"}, defaultLimits, []int{7001, 3}, []int{7001, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeScheduler(t, func(p *schedulerConn) {
				p.answerStart(c.limits)
				for i, n := range c.want {
					if _, body, err := p.read(); err != nil || len(body) != n {
						p.fail("frame %d has %d bytes (%v), want %d", i, len(body), err, n)
					}
				}
				p.answerEnd(wire.SessionEnded{SessionID: "s-1"})
			})
			cfg := f.config()
			cfg.Start.Audio = c.format
			s := startSession(t, cfg)
			for _, n := range c.writes {
				if got, err := s.Write(make([]byte, n)); got != n || err != nil {
					t.Fatalf("wrote %d of %d bytes: %v", got, n, err)
				}
			}
			if c.format.Encoding == "opus" {
				if _, err := s.Write(make([]byte, wire.MaxFrame)); err == nil {
					t.Error("a packet that is too large was accepted")
				}
			}
			s.endSession()
		})
	}
}

// A very short idle limit must not cause a flood of keepalives.
func TestKeepalivesAreLimited(t *testing.T) {
	testWithFakeTime(t, func(t *testing.T) {
		f := newInMemoryScheduler(t, func(p *schedulerConn) {
			l := defaultLimits
			l.IdleMS = 1
			p.answerStart(l)
			at := time.Now()
			for range 10 {
				p.expect(&wire.Keepalive{})
			}
			if took := time.Since(at); took < time.Second {
				t.Errorf("ten keepalives within %v", took)
			}
			for {
				if _, body, err := p.read(); err != nil || strings.Contains(string(body), "session_end") {
					break
				}
			}
			p.send(wire.SessionEnded{SessionID: "s-1"})
		})
		s := startSession(t, f.config())
		time.Sleep(2 * time.Second)
		s.endSession()
	})
}

// A file is copied in real time, and never further ahead than the limit.
func TestWriteKeepsRealTime(t *testing.T) {
	testWithFakeTime(t, func(t *testing.T) {
		const second = 32000
		var began time.Time
		var received, ahead time.Duration
		f := newInMemoryScheduler(t, func(p *schedulerConn) {
			l := defaultLimits
			l.BufferedMS = 2000
			p.answerStart(l)
			readAudio(p, func(audio []byte) {
				if received == 0 {
					began = time.Now()
				}
				received += time.Duration(len(audio)) * time.Second / second
				ahead = max(ahead, received-time.Since(began))
			})
		})
		s := startSession(t, f.config())
		at := time.Now()
		if _, err := io.Copy(s, bytes.NewReader(make([]byte, 30*second))); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(at); took < 28*time.Second || took > 30*time.Second {
			t.Errorf("30 s of audio took %v", took)
		}
		time.Sleep(time.Minute) // silence earns no credit
		at = time.Now()
		s.write(strings.Repeat("a", 10*second))
		if took := time.Since(at); took < 8*time.Second || took > 10*time.Second {
			t.Errorf("10 s of audio after a silence took %v", took)
		}
		s.endSession()
		if received != 40*time.Second || ahead > 2*time.Second || ahead < time.Second {
			t.Errorf("received %v of audio, up to %v ahead", received, ahead)
		}
	})
}

func TestKeepaliveWhileSilent(t *testing.T) {
	testWithFakeTime(t, func(t *testing.T) {
		f := newInMemoryScheduler(t, func(p *schedulerConn) {
			l := defaultLimits
			l.IdleMS = 30_000
			p.answerStart(l)
			at := time.Now()
			for range 3 {
				p.expect(&wire.Keepalive{})
				if took := time.Since(at); took != 10*time.Second {
					t.Errorf("a keepalive after %v", took)
				}
				at = time.Now()
			}
			p.expectAudio("aa")
			p.expect(&wire.Keepalive{})
			if took := time.Since(at); took != 14*time.Second {
				t.Errorf("a keepalive %v after the previous one, with audio 4 s after that", took)
			}
			p.answerEnd(wire.SessionEnded{SessionID: "s-1"})
		})
		s := startSession(t, f.config())
		time.Sleep(34 * time.Second)
		s.write("aa")
		time.Sleep(11 * time.Second)
		s.endSession()
	})
}
