package session_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// slowStore lets the first save of an utterance be late.
type slowStore struct {
	store.Store
	mu   sync.Mutex
	n    int
	gate chan struct{}
}

func (s *slowStore) SaveSession(ctx context.Context, p store.SaveParams) (bool, error) {
	s.mu.Lock()
	s.n++
	wait := s.n == 2
	s.mu.Unlock()
	if wait {
		<-s.gate
	}
	return s.Store.SaveSession(ctx, p)
}

// TestSavesThatOvertakeEachOther: two saves that overtake each other.
func TestSavesThatOvertakeEachOther(t *testing.T) {
	play(t, func(w *world) {
		slow := &slowStore{Store: w.store, gate: make(chan struct{})}
		w.over(slow, w.jobs)
		s, link := w.start()
		token := link.token(t)
		w.say(s, tone(300))
		_ = s.Audio(session.AudioFrame{Final: true}) // its save is under way for long
		synctest.Wait()
		w.say(s, tone(300))
		time.Sleep(2 * time.Second) // by pause
		synctest.Wait()
		close(slow.gate)
		synctest.Wait()
		if n := len(w.jobs.jobs()); n != 2 {
			t.Fatal(n)
		}
		w.move()
		_, next, err := w.resume(s, token, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(next.heard("session_resumed")); got != 1 {
			t.Fatal(got)
		}
		again, next, err := w.resume(s, token, 0)
		if err != nil {
			t.Fatal(err)
		}
		for seq := int64(1); seq <= 7; seq++ { // 4 was an end
			words := session.AudioFrame{Seq: seq, Data: tone(100)}
			if seq == 4 {
				words = session.AudioFrame{Seq: seq, Final: true}
			}
			if e := again.Audio(words); e != nil {
				t.Fatal(e)
			}
		}
		w.say(again, tone(300)) // and goes on to speak, frames 8 to 10
		_ = again.Audio(session.AudioFrame{Final: true})
		synctest.Wait()
		var cuts []any
		for _, m := range next.heard("utterance_committed") {
			cuts = append(cuts, m["utterance_index"], m["first_seq"], m["last_seq"])
		}
		t.Logf("cuts after the move: %v", cuts)
		for _, m := range next.heard("utterance_committed") {
			if m["first_seq"] == 5.0 && m["last_seq"] != 7.0 {
				t.Errorf("an utterance that was cut at 5-7 was cut again: %v", m)
			}
		}
	})
}

// TestTheOldConnectionSpeaksAfterItWasReplaced: what the old connection had read is taken in after the session goes on over another.
func TestTheOldConnectionSpeaksAfterItWasReplaced(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		w.say(s, tone(300))
		again, next, err := w.resume(s, link.token(t), 0)
		if err != nil {
			t.Fatal(err)
		}
		if m := next.last(t, "session_resumed"); m["next_audio_seq"] != 4.0 {
			t.Fatal(m)
		}
		// The reader of the old connection had a message in its hand while Resume held the lock.
		_ = s.Audio(session.AudioFrame{Data: tone(100)})
		// The client sends frame 4 again, and 5, in binary frames.
		_ = again.Audio(session.AudioFrame{Data: tone(100)})
		_ = again.Audio(session.AudioFrame{Data: tone(100)})
		_ = again.Audio(session.AudioFrame{Final: true})
		synctest.Wait()
		if m := next.last(t, "utterance_committed"); m["last_seq"] != 5.0 || m["duration_ms"] != 500.0 {
			t.Errorf("five frames were spoken: %v", m)
		}
	})
}

// TestAWrongTokenRevivesNothing: a wrong token leaves a session behind.
func TestAWrongTokenRevivesNothing(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		token := link.token(t)
		w.utter(s)
		w.move()
		if _, _, err := w.resume(s, "wrong", 1_000_000); err == nil {
			t.Fatal("resumed")
		}
		if w.rooms.Len() != 0 {
			t.Errorf("%d sessions after a wrong token", w.rooms.Len())
		}
		_, next, err := w.resume(s, token, 0)
		if err != nil {
			t.Fatal(err)
		}
		if m := next.last(t, "session_resumed"); m["next_audio_seq"] != 1.0 {
			t.Errorf("the sound of the utterance that waits is not asked for: %v", m)
		}
	})
}

// TestTwoStartsOfOneName: two that begin under one name.
func TestTwoStartsOfOneName(t *testing.T) {
	play(t, func(w *world) {
		links := [2]*ear{{}, {}}
		var wg sync.WaitGroup
		for i := range links {
			wg.Go(func() {
				_, _ = w.rooms.Start(w.t.Context(), session.StartParams{ID: "s1", Langs: [2]core.Lang{"en", "es"}, Request: &wire.SessionStart{}}, links[i])
			})
		}
		wg.Wait()
		var token string
		for _, l := range links {
			if m := l.heard("session_started"); len(m) > 0 {
				token = m[0]["resume_token"].(string)
			}
		}
		w.move()
		if _, err := w.rooms.Resume(w.t.Context(), session.ResumeParams{Session: "s1", Token: token}, &ear{}); err != nil {
			t.Error(err)
		}
	})
}

// strictDesk refuses a request that was used with other content, as dispatch does.
type strictDesk struct{ *desk }

func (d strictDesk) DispatchWaiting(ctx context.Context, r dispatch.Request, w dispatch.Wait) (dispatch.Placement, error) {
	d.mu.Lock()
	old, known := d.placed[r.Job()]
	d.mu.Unlock()
	if known && old.Fingerprint() != r.Fingerprint() {
		return dispatch.Placement{}, wire.Errorf(wire.RequestMismatch, "used before with other content")
	}
	return d.desk.DispatchWaiting(ctx, r, w)
}

// TestResumedElsewhereWhileTheFirstInstanceLives: cut in the middle of an utterance, and resumed at another instance while the first one lives.
func TestResumedElsewhereWhileTheFirstInstanceLives(t *testing.T) {
	play(t, func(w *world) {
		a, b := w.rooms, w.another(w.store, strictDesk{w.jobs})
		defer b.Close()
		s, link := w.start()
		token := link.token(t)
		w.say(s, tone(500))
		s.Detach() // the network
		next := &ear{}
		again, err := b.Resume(t.Context(), session.ResumeParams{Session: s.ID(), Token: token}, next)
		if err != nil {
			t.Fatal(err)
		}
		from := int64(next.last(t, "session_resumed")["next_audio_seq"].(float64))
		for seq := from; seq <= 25; seq++ {
			if e := again.Audio(session.AudioFrame{Seq: seq, Data: tone(100)}); e != nil {
				t.Fatal(e)
			}
			if seq > 5 {
				time.Sleep(100 * time.Millisecond)
			}
		}
		_ = again.Audio(session.AudioFrame{Final: true})
		synctest.Wait()
		for _, id := range w.jobs.jobs() {
			w.jobs.mu.Lock()
			t.Logf("job %s: %s", id, w.jobs.placed[id].AudioRef)
			w.jobs.mu.Unlock()
		}
		_ = a
		w.done(w.jobs.jobs()[0], "x") // the node is connected to A
		time.Sleep(time.Minute)
		synctest.Wait()
		wantEnds(t, next, "0 x")
	})
}

// TestAResultThatAnotherInstanceTook: the result is decided by another living instance.
func TestAResultThatAnotherInstanceTook(t *testing.T) {
	play(t, func(w *world) {
		b := w.another(w.store, w.jobs)
		defer b.Close()
		s, link := w.start()
		token := link.token(t)
		job := w.utter(s)
		s.Detach()
		next := &ear{}
		if _, err := b.Resume(t.Context(), session.ResumeParams{Session: s.ID(), Token: token}, next); err != nil {
			t.Fatal(err)
		}
		w.done(job, "x") // told to A, where the node is connected
		time.Sleep(time.Minute)
		synctest.Wait()
		wantEnds(t, next, "0 x")
	})
}
