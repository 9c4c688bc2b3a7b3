package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/session"
)

// TestSoundSentAgainForAJobThatEndedMeanwhile: the result comes while the sound is being sent again.
func TestSoundSentAgainForAJobThatEndedMeanwhile(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		token := link.token(t)
		job := w.utter(s)
		w.move()
		again, next, err := w.resume(s, token, 0)
		if err != nil {
			t.Fatal(err)
		}
		w.say(again, tone(100))
		w.done(job, "a") // its node had it all along
		w.say(again, tone(200))
		synctest.Wait()
		wantEnds(t, next, "0 a")
		if held := w.rooms.Audio().Held(); held != 0 {
			t.Errorf("%d bytes are held for a job that has ended", held)
		}
		again.End()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if held := w.rooms.Audio().Held(); held != 0 || w.rooms.Len() != 0 {
			t.Errorf("%d bytes are held although there is no session (%d)", held, w.rooms.Len())
		}
	})
}

// TestSoundSentAgainInPart: sound that was sent again in part, and then nobody came back.
func TestSoundSentAgainInPart(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		token := link.token(t)
		w.utter(s)
		w.move()
		again, _, err := w.resume(s, token, 0)
		if err != nil {
			t.Fatal(err)
		}
		w.say(again, tone(200))
		again.Detach()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if held := w.rooms.Audio().Held(); held != 0 || w.rooms.Len() != 0 {
			t.Errorf("%d bytes are held although there is no session (%d)", held, w.rooms.Len())
		}
	})
}

// TestLateAudioStaysLateAfterTakeover: audio of an utterance that its client ended is dropped, also when it is sent again to another
// instance.
func TestLateAudioStaysLateAfterTakeover(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		token := link.token(t)
		for seq := range 3 {
			if e := s.Audio(session.AudioFrame{Utterance: "u1", Data: tone(100), Final: seq == 2}); e != nil {
				t.Fatal(e)
			}
		}
		synctest.Wait()
		if e := s.Audio(session.AudioFrame{Utterance: "u1", Data: tone(100), Final: true}); e != nil { // late, frame 4
			t.Fatal(e)
		}
		synctest.Wait()
		wantCommitted(t, link, "manual")
		w.done(w.jobs.jobs()[0], "a")
		w.move()
		again, next, err := w.resume(s, token, 1)
		if err != nil {
			t.Fatal(err)
		}
		m := next.last(t, "session_resumed")
		for seq := int64(m["next_audio_seq"].(float64)); seq <= 4; seq++ {
			if e := again.Audio(session.AudioFrame{Seq: seq, Utterance: "u1", Data: tone(100), Final: seq == 4}); e != nil {
				t.Fatal(e)
			}
		}
		synctest.Wait()
		if n := len(w.jobs.jobs()); n != 1 {
			t.Errorf("%d jobs, want 1: the late chunk became one of its own", n)
		}
	})
}

// TestACancelledUtteranceAfterAMove: an open utterance that was cancelled, after a move.
func TestACancelledUtteranceAfterAMove(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		token := link.token(t)
		if e := s.Begin("u1", "", ""); e != nil {
			t.Fatal(e)
		}
		w.say(s, tone(300))
		if e := s.Cancel("u1", ""); e != nil {
			t.Fatal(e)
		}
		time.Sleep(time.Second)
		w.move()
		_, next, err := w.resume(s, token, 0)
		if err != nil {
			t.Fatal(err)
		}
		if m := next.last(t, "session_resumed"); m["next_audio_seq"] != 4.0 {
			t.Errorf("the sound of an utterance that was given up is asked for again: %v", m)
		}
	})
}

// TestALongOpenUtteranceIsSentAgain: a long open utterance is sent again to another instance.
func TestALongOpenUtteranceIsSentAgain(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		token := link.token(t)
		w.say(s, tone(9000)) // longest 10 s, ahead 5 s
		w.move()
		again, _, err := w.resume(s, token, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 90 {
			if e := again.Audio(session.AudioFrame{Seq: int64(i + 1), Data: tone(100)}); e != nil {
				t.Fatalf("frame %d, which is sent again: %v", i+1, e)
			}
		}
	})
}

// TestAStartOfAnUtteranceThatIsSaidAgain, with its sound, begins no other.
func TestAStartOfAnUtteranceThatIsSaidAgain(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		utter := func(s *session.Connection, request core.RequestID) {
			t.Helper()
			if e := s.Begin("", "", request); e != nil {
				t.Fatal(e)
			}
			w.say(s, tone(300))
			if e := s.Audio(session.AudioFrame{Final: true}); e != nil {
				t.Fatal(e)
			}
			synctest.Wait()
		}
		utter(s, "r0")
		utter(s, "r1")
		w.move()
		again, ear, err := w.resume(s, link.token(t), 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, request := range []core.RequestID{"r0", "r1", "r2"} {
			utter(again, request)
		}
		var got []any
		for _, m := range ear.heard("utterance_committed") {
			got = append(got, m["request_id"])
		}
		if diff := cmp.Diff([]any{"r0", "r1", "r2"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		jobs := w.jobs.jobs()
		if len(jobs) != 3 {
			t.Errorf("%d jobs", len(jobs))
		}
		for _, job := range jobs {
			if clip := w.rooms.Audio().Clip(job); clip == nil || len(clip.Data) != len(tone(300)) {
				t.Errorf("the sound of %s is not there", job)
			}
		}
	})
}
