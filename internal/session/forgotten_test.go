package session_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
	"github.com/lingua-scheduler/lingua/wire"
)

// between is a store in which something happens after a session was loaded and before it is taken.
type between struct {
	store.Store
	then func()
}

func (b *between) LoadSession(ctx context.Context, key core.SessionKey) (store.SessionState, error) {
	st, err := b.Store.LoadSession(ctx, key)
	if then := b.then; then != nil {
		b.then = nil
		then()
	}
	return st, err
}

// TestTakenOverWithAnOldState: the first instance lives, and commits an utterance while the session is being taken over. What it saved is
// overwritten with what the other had read before.
func TestTakenOverWithAnOldState(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		token := link.token(t)
		w.say(s, tone(500)) // frames 1 to 5 at A, whose connection is half open
		st := &between{Store: w.store}
		b := w.another(st, strictDesk{w.jobs})
		defer b.Close()
		st.then = func() { // A's pause is over at this moment: it cuts, saves, and places
			time.Sleep(1500 * time.Millisecond)
			synctest.Wait()
			if n := len(w.jobs.jobs()); n != 1 {
				t.Fatalf("%d jobs", n)
			}
		}
		next := &ear{}
		again, err := b.Resume(t.Context(), session.ResumeParams{Session: s.ID(), Token: token}, next)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("resumed: %v", next.last(t, "session_resumed"))
		for seq := int64(1); seq <= 8; seq++ { // the client sends all again, and goes on to speak
			if e := again.Audio(session.AudioFrame{Seq: seq, Data: tone(100)}); e != nil {
				t.Fatal(e)
			}
			time.Sleep(100 * time.Millisecond)
		}
		_ = again.Audio(session.AudioFrame{Final: true})
		synctest.Wait()
		for _, m := range next.heard("utterance_committed") {
			t.Logf("committed: index %v, %v-%v, %v", m["utterance_index"], m["first_seq"], m["last_seq"], m["job_id"])
			if m["first_seq"] == 1.0 && m["last_seq"] != 5.0 {
				t.Errorf("what was cut at 1-5, and dispatched, was cut again at %v-%v", m["first_seq"], m["last_seq"])
			}
		}
		w.done(w.jobs.jobs()[0], "one to five")
		time.Sleep(time.Minute)
		synctest.Wait()
		t.Logf("terminal messages: %q", next.ends())
		if len(next.ends()) == 1 && next.ends()[0] != "0 one to five" {
			t.Errorf("frames 6 to 8 were spoken, accepted, and have no result; the whole is answered by %q", next.ends())
		}
	})
}

// TestWantedIsLost: word that a job wants its sound is lost. The sound is here, where the session went on; nobody looks.
func TestWantedIsLost(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		token := link.token(t)
		job := w.utter(s)
		w.move() // A, who had dispatched it, is gone or without the sound
		again, _, err := w.resume(s, token, 0)
		if err != nil {
			t.Fatal(err)
		}
		for seq := int64(1); seq <= 4; seq++ {
			words := session.AudioFrame{Seq: seq, Data: tone(100)}
			if seq == 4 {
				words = session.AudioFrame{Seq: seq, Final: true}
			}
			_ = again.Audio(words)
		}
		synctest.Wait()
		if w.rooms.Audio().Clip(job) == nil || w.rearmed() != 1 {
			t.Fatal("the sound is not here")
		}
		// Now its node fails; an instance without the sound shelves it; LoadSession or Post fails once: no letter.
		time.Sleep(time.Minute)
		synctest.Wait()
		if w.rearmed() < 2 {
			t.Errorf("in a minute nobody looked whether job %s waits for the sound that is here; then it ends with AUDIO_LOST", job)
		}
	})
}

// TestTheStoreForgetsTheLastMessage: a failover of the store forgets the last message of an outbox, which its session has seen. What comes after it
// waits for it in the outbox for ever.
func TestTheStoreForgetsTheLastMessage(t *testing.T) {
	play(t, func(w *world) {
		primary := &switched{Store: w.store}
		w.over(primary, w.jobs)
		s, link := w.start()
		first := w.utter(s)
		w.done(first, "a")
		second := w.utter(s)
		st, err := w.store.LoadSession(t.Context(), s.Ref().SessionKey)
		if err != nil {
			t.Fatal(err)
		}
		messages, err := w.store.Read(t.Context(), store.ReadParams{Session: s.Ref()})
		if err != nil || len(messages) != 1 {
			t.Fatal(messages, err)
		}
		// The replica has all of it as it is now, but not the append that comes next.
		replica := memstore.New(store.Timing{Presence: 15 * time.Second, Job: 30 * time.Second, Retention: time.Minute})
		for epoch := int64(1); epoch <= st.Epoch; epoch++ {
			if held, err := replica.SaveSession(t.Context(), store.SaveParams{
				Session: s.Ref(), Ownership: store.Ownership{Owner: st.Owner, Epoch: epoch}, TakeOver: true, Body: st.Body, Keep: 10 * time.Minute,
			}); err != nil || !held {
				t.Fatal(held, err)
			}
		}
		if _, err := replica.Append(t.Context(), store.AppendParams{Session: s.Ref(), Index: 0, Body: messages[0].Body, Keep: 10 * time.Minute}); err != nil {
			t.Fatal(err)
		}
		w.done(second, "b")
		synctest.Wait()
		wantEnds(t, link, "0 a", "1 b")
		primary.Store = replica // the primary dies
		third, fourth := w.utter(s), w.utter(s)
		w.done(third, "c")
		w.done(fourth, "d")
		for range 40 {
			time.Sleep(10 * time.Second)
			s.Keepalive()
		}
		synctest.Wait()
		wantEnds(t, link, "0 a", "1 b", "2 c", "3 d")
	})
}

// switched is a store that can be another from one moment to the next.
type switched struct{ store.Store }

// TestWhoHasSeenMoreThanTheStoreCannotComeBack: the same, and the session's instance dies as well: whoever has seen more than the store knows cannot come back.
func TestWhoHasSeenMoreThanTheStoreCannotComeBack(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		token := link.token(t)
		w.utter(s)
		w.move()
		_, next, err := w.resume(s, token, 1) // its result had come; the append is forgotten
		if err != nil {
			t.Errorf("the session is lost for good: %v", err)
			return
		}
		t.Log(next.last(t, "session_resumed"))
	})
}

// TestASessionThatComesToOneWhoLeaves is sent elsewhere at once.
func TestASessionThatComesToOneWhoLeaves(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		token := link.token(t)
		s.Detach()
		w.rooms.GoAway(w.t.Context(), "this instance is stopping", 100*time.Millisecond)
		var e *wire.Error
		if _, _, err := w.resume(s, token, 0); !errors.As(err, &e) || e.Code != wire.AllCandidatesFullOrFailed {
			t.Errorf("who comes back: %v", err)
		}
		p := session.StartParams{Langs: [2]core.Lang{"en", "es"}, Request: &wire.SessionStart{}}
		if _, err := w.rooms.Start(w.t.Context(), p, &ear{}); !errors.As(err, &e) || e.Code != wire.AllCandidatesFullOrFailed {
			t.Errorf("who is new: %v", err)
		}
	})
}

// lostReply carries out the first save and loses its reply.
type lostReply struct {
	store.Store
	lost bool
}

func (l *lostReply) SaveSession(ctx context.Context, p store.SaveParams) (bool, error) {
	held, err := l.Store.SaveSession(ctx, p)
	if !l.lost {
		l.lost = true
		return false, store.ErrDown
	}
	return held, err
}

// TestAStartWhoseReplyWasLost is a start all the same.
func TestAStartWhoseReplyWasLost(t *testing.T) {
	play(t, func(w *world) {
		w.over(&lostReply{Store: w.store}, w.jobs)
		w.start()
	})
}

// rearmed is how often somebody went on with a job.
func (w *world) rearmed() int {
	w.jobs.mu.Lock()
	defer w.jobs.mu.Unlock()
	return len(w.jobs.rearmed)
}
