package session_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/wire"
)

// token is what a session was told to come back with.
func (e *ear) token(t *testing.T) string {
	t.Helper()
	return e.last(t, "session_started")["resume_token"].(string)
}

func (w *world) resume(s *session.Connection, token string, last int64) (*session.Connection, *ear, error) {
	link := &ear{}
	again, err := w.rooms.Resume(w.t.Context(), session.ResumeParams{Session: s.ID(), Token: token, Last: last}, link)
	link.sits(again)
	return again, link, err
}

// TestACutLosesNothing: what ended meanwhile, and what was sent and did not arrive, comes over the next connection.
func TestACutLosesNothing(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		token := link.token(t)
		var jobs []core.JobID
		for range 3 {
			jobs = append(jobs, w.utter(s))
		}
		w.done(jobs[0], "a")
		w.done(jobs[1], "b")
		w.say(s, tone(300)) // and somebody is speaking
		s.Detach()
		w.done(jobs[2], "c")
		time.Sleep(300 * time.Millisecond)

		s, next, err := w.resume(s, token, 1) // only the first result arrived
		if err != nil {
			t.Fatal(err)
		}
		m := next.last(t, "session_resumed")
		if m["recovered"] != true || m["next_audio_seq"] != 16.0 || m["last_seq"] != 3.0 {
			t.Errorf("%v", m)
		}
		synctest.Wait()
		wantEnds(t, next, "1 b", "2 c")
		w.say(s, tone(200))
		if e := s.Audio(session.AudioFrame{Final: true}); e != nil {
			t.Fatal(e)
		}
		synctest.Wait()
		if m := next.last(t, "utterance_committed"); m["first_seq"] != 13.0 || m["duration_ms"] != 500.0 {
			t.Errorf("the utterance that was open: %v", m)
		}
		w.done(w.jobs.jobs()[3], "d")
		wantEnds(t, next, "1 b", "2 c", "3 d")
		s.End()
		if m := next.last(t, "session_ended"); m["results"] != 4.0 {
			t.Errorf("%v", m)
		}
	})
}

// TestAudioThatIsSentAgain is recognised by its number.
func TestAudioThatIsSentAgain(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		for range 2 {
			for seq := int64(1); seq <= 3; seq++ {
				if e := s.Audio(session.AudioFrame{Seq: seq, Data: tone(100)}); e != nil {
					t.Fatal(e)
				}
			}
			if e := s.Audio(session.AudioFrame{Seq: 4, Final: true}); e != nil {
				t.Fatal(e)
			}
			time.Sleep(time.Second)
		}
		synctest.Wait()
		wantCommitted(t, link, "manual")
		if m := link.last(t, "utterance_committed"); m["duration_ms"] != 300.0 {
			t.Errorf("%v", m)
		}
		if e := s.Audio(session.AudioFrame{Seq: 6, Data: tone(100)}); e == nil || e.Field != "seq" {
			t.Errorf("a gap in the audio: %v", e)
		}
	})
}

func TestAnotherConnectionReplacesTheFirst(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		job := w.utter(s)
		_, next, err := w.resume(s, link.token(t), 0)
		if err != nil {
			t.Fatal(err)
		}
		if code, _ := link.closed(); code != wire.CloseReplaced {
			t.Errorf("the first was closed with %d", code)
		}
		s.Detach() // which comes late, and does not concern the second
		w.done(job, "a")
		wantEnds(t, next, "0 a")
		if diff := cmp.Diff([]string{"manual"}, committed(next)); diff != "" {
			t.Errorf("what waits is told again (-want +got):\n%s", diff)
		}
	})
}

func TestWhoMayNotResume(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		token := link.token(t)
		refused := func(p session.ResumeParams, code wire.Code) {
			t.Helper()
			_, err := w.rooms.Resume(w.t.Context(), p, &ear{})
			var e *wire.Error
			if !errors.As(err, &e) || e.Code != code {
				t.Errorf("%+v: %v, want %s", p, err, code)
			}
		}
		refused(session.ResumeParams{Session: s.ID(), Token: token + "x"}, wire.Forbidden)
		refused(session.ResumeParams{Session: s.ID()}, wire.Forbidden)
		refused(session.ResumeParams{Session: s.ID(), Token: token, Tenant: "acme"}, wire.NotFound) // it has no such session
		refused(session.ResumeParams{Session: "other", Token: token}, wire.NotFound)
		refused(session.ResumeParams{Session: s.ID(), Token: token, Last: 7_000}, wire.InvalidRequest)
		s.Detach()
		time.Sleep(w.cfg.Resume + time.Second)
		synctest.Wait()
		if w.rooms.Len() != 0 {
			t.Error("it is still waited for")
		}
	})
}

func TestASilentSessionIsClosed(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		for range 3 {
			time.Sleep(w.cfg.Idle - time.Second)
			s.Keepalive()
		}
		if code, _ := link.closed(); code != 0 {
			t.Fatalf("closed with %d although it was kept alive", code)
		}
		time.Sleep(w.cfg.Idle + time.Second)
		synctest.Wait()
		if code, e := link.closed(); code != wire.CloseIdle || e == nil || w.rooms.Len() != 0 {
			t.Errorf("closed with %d, %v; %d sessions", code, e, w.rooms.Len())
		}
	})
}

// TestPartials replace each other; those of an earlier attempt, and those after the result, are dropped.
func TestPartials(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start(func(in *wire.SessionStart) { in.Partials = true })
		job := w.utter(s)
		part := func(attempt int, rev int64, text string) {
			w.rooms.DeliverPartial(&wire.JobPartial{ActiveJob: wire.ActiveJob{JobID: string(job), AttemptID: attempt}, Rev: rev, TextSrc: text})
		}
		part(1, 1, "a")
		part(1, 3, "b")
		part(1, 2, "old")
		part(2, 1, "c")
		part(1, 9, "of a lower attempt")
		w.done(job, "done")
		part(2, 2, "late")
		var got []string
		for _, m := range link.heard("partial") {
			got = append(got, m["text_src"].(string))
		}
		if diff := cmp.Diff([]string{"a", "b", "c"}, got); diff != "" {
			t.Errorf("partials (-want +got):\n%s", diff)
		}
	})
}

// TestSpeechFollowsItsResult, also when the result has to wait for its turn.
func TestSpeechFollowsItsResult(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start(func(in *wire.SessionStart) { in.TTS = true })
		jobs := []core.JobID{w.utter(s), w.utter(s)}
		spoken := func(job core.JobID, chunk int, last bool) {
			h := wire.BinaryHeader{Kind: wire.KindTTS, ActiveJob: wire.ActiveJob{JobID: string(job), AttemptID: 1}, Chunk: chunk, Last: last}
			w.rooms.DeliverSpeech(&h, []byte("sound"))
		}
		done := func(job core.JobID) {
			w.jobs.mu.Lock()
			spec := w.jobs.placed[job]
			w.jobs.mu.Unlock()
			if err := w.rooms.JobEnded(w.t.Context(), ended(job, spec, core.StateDone, "", `{"tts":true,"text_tgt":"x"}`)); err != nil {
				t.Fatal(err)
			}
		}
		done(jobs[1])
		spoken(jobs[1], 0, false)
		spoken(jobs[1], 1, true)
		if len(link.heard("binary")) != 0 {
			t.Error("speech came before its result")
		}
		done(jobs[0])
		spoken(jobs[0], 0, true)
		var got []string
		for _, m := range link.heard("result", "binary") {
			got = append(got, m["type"].(string))
		}
		if diff := cmp.Diff([]string{"result", "result", "binary", "binary", "binary"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if m := link.last(t, "result"); m["tts"] != "follows" {
			t.Errorf("%v", m)
		}
		s.End()
		if held := w.rooms.Audio().Held(); held != 0 {
			t.Errorf("%d bytes are held", held)
		}
	})
}

// TestASessionOutlivesItsInstance: another one goes on with it, has the lost sound sent again, cuts it where it was cut
// and makes no second job of it.
func TestASessionOutlivesItsInstance(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		token := link.token(t)
		jobs := []core.JobID{w.utter(s), w.utter(s)} // frames 1 to 4 and 5 to 8, of which the last of each are ends
		w.say(s, tone(300))                          // 9 to 11, open
		w.move()
		w.done(jobs[0], "a")

		again, next, err := w.resume(s, token, 0)
		if err != nil {
			t.Fatal(err)
		}
		if m := next.last(t, "session_resumed"); m["next_audio_seq"] != 5.0 || m["recovered"] != true {
			t.Errorf("%v", m)
		}
		synctest.Wait()
		wantEnds(t, next, "0 a")
		w.say(again, tone(300))
		if e := again.Audio(session.AudioFrame{Final: true}); e != nil {
			t.Fatal(e)
		}
		synctest.Wait()
		if diff := cmp.Diff([]core.JobID{jobs[1]}, w.jobs.rearmed); diff != "" {
			t.Errorf("jobs whose sound is back (-want +got):\n%s", diff)
		}
		if clip := w.rooms.Audio().Clip(jobs[1]); clip == nil || len(clip.Data) != len(tone(300)) {
			t.Errorf("the sound that was sent again: %v", clip)
		}
		w.say(again, tone(300))
		w.say(again, tone(200))
		if e := again.Audio(session.AudioFrame{Final: true}); e != nil {
			t.Fatal(e)
		}
		synctest.Wait()
		if m := next.last(t, "utterance_committed"); m["first_seq"] != 9.0 || m["utterance_index"] != 2.0 || m["duration_ms"] != 500.0 {
			t.Errorf("what was open: %v", m)
		}
		if got := w.jobs.jobs(); len(got) != 3 {
			t.Errorf("%d jobs, want 3", len(got))
		}
		w.done(w.jobs.jobs()[2], "c")
		w.done(jobs[1], "b")
		wantEnds(t, next, "0 a", "1 b", "2 c")
		if held := w.rooms.Audio().Held(); held != 0 {
			t.Errorf("%d bytes are held", held)
		}
	})
}

// TestAnUtteranceThatWasNeverAJob when its instance died becomes one when its sound is back.
func TestAnUtteranceThatWasNeverAJob(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		w.jobs.refuse = wire.Errorf(wire.AllCandidatesFullOrFailed, "full")
		w.say(s, tone(300))
		if e := s.Audio(session.AudioFrame{Final: true}); e != nil {
			t.Fatal(e)
		}
		synctest.Wait()
		w.move()
		w.jobs.refuse = nil
		again, next, err := w.resume(s, link.token(t), 0)
		if err != nil {
			t.Fatal(err)
		}
		w.say(again, tone(300))
		synctest.Wait()
		if n := len(w.jobs.jobs()); n != 1 {
			t.Fatalf("%d jobs, want 1", n)
		}
		w.done(w.jobs.jobs()[0], "a")
		wantEnds(t, next, "0 a")
	})
}
