package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/wire"
)

func lang(tag string) core.Lang { return core.Lang(tag) }

func wantEnds(t *testing.T, e *ear, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, e.ends()); diff != "" {
		t.Errorf("terminal messages (-want +got):\n%s", diff)
	}
}

// TestResultsComeInOrder, each once, whatever the order in which the jobs end and however often they are told.
func TestResultsComeInOrder(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		var jobs []core.JobID
		for range 4 {
			jobs = append(jobs, w.utter(s))
		}
		w.done(jobs[2], "c")
		w.fail(jobs[1], core.ReasonMaxRetry)
		wantEnds(t, link)
		w.done(jobs[0], "a")
		w.done(jobs[0], "another")
		wantEnds(t, link, "0 a", "1 MAX_RETRY_EXCEEDED", "2 c")
		w.done(jobs[3], "d")
		wantEnds(t, link, "0 a", "1 MAX_RETRY_EXCEEDED", "2 c", "3 d")
		for i, m := range link.heard("result", "error") {
			if m["seq"] != float64(i+1) {
				t.Errorf("message %d has seq %v", i, m["seq"])
			}
		}
		if held := w.rooms.Audio().Held(); held != 0 {
			t.Errorf("%d bytes are held", held)
		}
		s.End()
		if m := link.last(t, "session_ended"); m["results"] != 3.0 || m["errors"] != 1.0 || m["utterances"] != 4.0 || m["audio_ms"] != 900.0 {
			t.Errorf("%v", m)
		}
		if code, _ := link.closed(); code != wire.CloseNormal {
			t.Errorf("closed with %d", code)
		}
		_, again, err := w.resume(s, link.token(t), 4) // it did not arrive
		if err != nil {
			t.Fatal(err)
		}
		again.last(t, "session_ended")
		time.Sleep(w.cfg.Resume + time.Second)
		synctest.Wait()
		if w.rooms.Len() != 0 {
			t.Errorf("%d sessions left", w.rooms.Len())
		}
	})
}

// TestTheEndWaitsForResults and commits what is open.
func TestTheEndWaitsForResults(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		first := w.utter(s)
		w.say(s, tone(200))
		s.End()
		synctest.Wait()
		wantCommitted(t, link, "manual", "end")
		if e := s.Audio(session.AudioFrame{Data: tone(100)}); e == nil {
			t.Error("audio after the end was taken")
		}
		if len(link.heard("session_ended")) != 0 {
			t.Error("it ended before its results")
		}
		w.done(w.jobs.jobs()[1], "b")
		w.done(first, "a")
		wantEnds(t, link, "0 a", "1 b")
		link.last(t, "session_ended")
	})
}

// TestAFullFleetIsWaitedFor, and after a while the utterance ends without having been a job.
func TestAFullFleetIsWaitedFor(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		full := wire.Errorf(wire.AllCandidatesFullOrFailed, "full")
		set := func(e *wire.Error) {
			w.jobs.mu.Lock()
			w.jobs.refuse = e
			w.jobs.mu.Unlock()
		}
		speak := func() {
			w.say(s, tone(100))
			if e := s.Audio(session.AudioFrame{Final: true}); e != nil {
				t.Fatal(e)
			}
		}
		set(full)
		speak()
		time.Sleep(5 * time.Second)
		set(nil)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(w.jobs.jobs()) != 1 {
			t.Fatal("it was not placed when there was room")
		}
		set(full)
		speak()
		time.Sleep(11 * time.Second)
		synctest.Wait()
		w.done(w.jobs.jobs()[0], "a")
		wantEnds(t, link, "0 a", "1 ALL_CANDIDATES_FULL_OR_FAILED")

		set(wire.FieldErrorf(wire.RequestMismatch, "request_id", "other content"))
		synctest.Wait()
		asked := w.jobs.asked
		speak()
		synctest.Wait()
		wantEnds(t, link, "0 a", "1 ALL_CANDIDATES_FULL_OR_FAILED", "2 REQUEST_MISMATCH")
		if w.jobs.asked != asked+1 {
			t.Error("a refusal that will not change was tried again")
		}
	})
}

// TestARepeatedRequestMakesNoSecondJob within a session.
func TestARepeatedRequestMakesNoSecondJob(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		for range 3 {
			if e := s.Audio(session.AudioFrame{Data: tone(100), Request: "req-1", Final: true}); e != nil {
				t.Fatal(e)
			}
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		if n := len(w.jobs.jobs()); n != 1 {
			t.Errorf("%d jobs, want 1", n)
		}
		if n := len(link.heard("warning")); n != 2 {
			t.Errorf("%d warnings, want 2", n)
		}
		w.done(w.jobs.jobs()[0], "a")
		wantEnds(t, link, "0 a")
		if held := w.rooms.Audio().Held(); held != 0 {
			t.Errorf("%d bytes are held", held)
		}
	})
}

// TestCancel gives up what is open, what waits for a node and what is on one.
func TestCancel(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		if e := s.Begin("u-0", "", ""); e != nil {
			t.Fatal(e)
		}
		w.say(s, tone(100))
		if e := s.Cancel("u-0", ""); e != nil {
			t.Fatal(e)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		wantCommitted(t, link)

		job := w.utter(s)
		if e := s.Cancel("", job); e != nil {
			t.Fatal(e)
		}
		synctest.Wait()
		wantEnds(t, link, "0 CANCELLED")

		w.jobs.mu.Lock()
		w.jobs.refuse = wire.Errorf(wire.NoCapableNode, "none")
		w.jobs.mu.Unlock()
		if e := s.Audio(session.AudioFrame{Utterance: "u-2", Data: tone(100), Final: true}); e != nil {
			t.Fatal(e)
		}
		synctest.Wait()
		if e := s.Cancel("u-2", ""); e != nil {
			t.Fatal(e)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		wantEnds(t, link, "0 CANCELLED", "1 CANCELLED")
		if e := s.Cancel("u-9", ""); e == nil || e.Code != wire.NotFound {
			t.Errorf("an utterance that is not there: %v", e)
		}
		if held := w.rooms.Audio().Held(); held != 0 {
			t.Errorf("%d bytes are held", held)
		}
	})
}

// TestTooMuchAtOnce ends what is too much with an error of its own, in its turn.
func TestTooMuchAtOnce(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		var jobs []core.JobID
		for range 4 {
			jobs = append(jobs, w.utter(s))
		}
		if e := s.Audio(session.AudioFrame{Data: tone(100), Final: true}); e != nil {
			t.Fatal(e)
		}
		synctest.Wait()
		for i, job := range jobs {
			w.done(job, string(rune('a'+i)))
		}
		wantEnds(t, link, "0 a", "1 b", "2 c", "3 d", "4 RATE_LIMITED")
	})
}

func TestAudioFasterThanSpeech(t *testing.T) {
	play(t, func(w *world) {
		s, _ := w.start()
		var e *wire.Error
		for range 100 {
			if e = s.Audio(session.AudioFrame{Data: tone(100)}); e != nil {
				break
			}
		}
		if e == nil || e.Code != wire.RateLimited {
			t.Errorf("ten seconds in no time: %v", e)
		}
	})
}
