package session_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestPaceAfterAQuietHour: pace.
func TestPaceAfterAQuietHour(t *testing.T) {
	play(t, func(w *world) {
		s, _ := w.start()
		for range 36 {
			time.Sleep(100 * time.Second)
			s.Keepalive()
		}
		var total time.Duration
		for total < time.Minute {
			if e := s.Audio(session.AudioFrame{Data: tone(1000)}); e != nil {
				return
			}
			total += time.Second
		}
		t.Errorf("%s of audio came at once, and the limit is %s ahead", total, w.cfg.Ahead)
	})
}

func TestPaceOfOpus(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start(func(in *wire.SessionStart) { in.Audio.Encoding = "opus" })
		for i := range 200 { // 4 s of frames of 20 ms each at once, many times over
			if e := s.Audio(session.AudioFrame{Data: make([]byte, 5000), Final: i == 199}); e != nil {
				return
			}
		}
		synctest.Wait()
		t.Errorf("a megabyte of opus at once is no hurry, and lasts %v ms", link.last(t, "utterance_committed")["duration_ms"])
	})
}

// TestNamesOfCancelledUtterances: names of utterances that were cancelled while open.
func TestNamesOfCancelledUtterances(t *testing.T) {
	play(t, func(w *world) {
		s, _ := w.start()
		for range 10_000 {
			_ = s.Begin("u", "", "")
			_ = s.Cancel("u", "")
		}
		if n := s.Past(); n > 64 {
			t.Errorf("%d names are kept", n)
		}
	})
}

// TestManyUtterancesAtOnce: many utterances at once.
func TestManyUtterancesAtOnce(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		for i := range 20_000 {
			if e := s.Audio(session.AudioFrame{Data: tone(1)[:2+2*(i%2)], Final: true}); e != nil {
				t.Logf("stopped at %d: %v", i, e)
				return
			}
		}
		synctest.Wait()
		t.Errorf("%d utterances at once were committed; %d jobs, %d errors", len(link.heard("utterance_committed")), len(w.jobs.jobs()), len(link.heard("error")))
	})
}

type stuckStore struct {
	store.Store
	gate chan struct{}
	mu   sync.Mutex
	n    int
	now  int
}

func (s *stuckStore) SaveSession(ctx context.Context, p store.SaveParams) (bool, error) {
	s.mu.Lock()
	s.n++
	if s.n > 1 {
		s.now++
		s.mu.Unlock()
		<-s.gate
		return true, nil
	}
	s.mu.Unlock()
	return s.Store.SaveSession(ctx, p)
}

// TestAFloodOfUpdates: a flood of updates while the store is slow.
func TestAFloodOfUpdates(t *testing.T) {
	play(t, func(w *world) {
		st := &stuckStore{Store: w.store, gate: make(chan struct{})}
		w.over(st, w.jobs)
		s, _ := w.start()
		for range 5000 {
			_ = s.Update("es", nil, &wire.SessionUpdate{})
		}
		synctest.Wait()
		if st.now > 10 {
			t.Errorf("%d goroutines save one session at once", st.now)
		}
		close(st.gate)
	})
}
