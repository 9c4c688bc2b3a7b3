package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/wire"
)

// abandon says two utterances, whose jobs are not done, and lets the instance die.
func abandon(w *world) (s *session.Connection, token string) {
	s, link := w.start()
	w.utter(s) // frames 1 to 3, and 4 that ends it
	w.utter(s) // 5 to 7, 8
	w.say(s, tone(200))
	w.jobs.reset() // the records are gone, too: nobody but the client has the audio
	w.move()
	return s, link.token(w.t)
}

func TestResumeSaysWhichAudioIsNeeded(t *testing.T) {
	play(t, func(w *world) {
		s, token := abandon(w)
		_, next, err := w.resume(s, token, 0)
		if err != nil {
			t.Fatal(err)
		}
		m := next.last(t, "session_resumed")
		want := []any{
			map[string]any{"utterance_index": 0.0, "first_seq": 1.0, "last_seq": 3.0},
			map[string]any{"utterance_index": 1.0, "first_seq": 5.0, "last_seq": 7.0},
		}
		if diff := cmp.Diff(want, m["audio_needed"]); diff != "" || m["next_audio_seq"] != 1.0 {
			t.Errorf("%v (-want +got):\n%s", m["next_audio_seq"], diff)
		}
	})
}

// A client that does not have the audio any more says so: the utterance ends at once, and what it has comes after.
func TestAudioGoneEndsTheUtterance(t *testing.T) {
	for name, gone := range map[string][]int64{"the first": {0}, "the second": {1}, "both": {1, 0}} {
		t.Run(name, func(t *testing.T) {
			play(t, func(w *world) {
				s, token := abandon(w)
				again, next, err := w.resume(s, token, 0)
				if err != nil {
					t.Fatal(err)
				}
				lost := map[int64]bool{}
				for _, index := range gone {
					lost[index] = true
					if e := again.AudioGone(index); e != nil {
						t.Fatal(e)
					}
				}
				send := func(from, to int64) {
					for seq := from; seq <= to; seq++ {
						w.hear(again, session.AudioFrame{Seq: seq, Data: tone(100), Final: false})
					}
				}
				if !lost[0] {
					send(1, 3)
				}
				w.hear(again, session.AudioFrame{Seq: 4, Final: true})
				if !lost[1] {
					send(5, 7)
				}
				w.hear(again, session.AudioFrame{Seq: 8, Final: true})
				send(9, 10)
				w.hear(again, session.AudioFrame{Seq: 11, Final: true})
				synctest.Wait()
				for _, id := range w.jobs.jobs() {
					w.done(id, "ok")
				}
				synctest.Wait()
				want := []string{"0 ok", "1 ok", "2 ok"}
				for index := range lost {
					want[index] = want[index][:2] + "AUDIO_LOST"
				}
				wantEnds(t, next, want...)
				if e := again.AudioGone(7); e == nil || e.Code != wire.NotFound {
					t.Errorf("an utterance there is none of: %v", e)
				}
			})
		})
	}
}

// Audio that is here is not lost because the client does not have it any more.
func TestAudioGoneOfAudioThatIsHere(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		job := w.utter(s)
		if e := s.AudioGone(0); e != nil {
			t.Fatal(e)
		}
		synctest.Wait()
		w.done(job, "a")
		wantEnds(t, link, "0 a")
	})
}

// An utterance whose audio does not come ends within the time that the session was told, counted from the resume.
func TestUtteranceEndsWithinResultTimeout(t *testing.T) {
	play(t, func(w *world) {
		s, token := abandon(w)
		time.Sleep(30 * time.Second) // nobody is connected, so nothing counts
		_, next, err := w.resume(s, token, 0)
		if err != nil {
			t.Fatal(err)
		}
		within := w.cfg.Wait + w.cfg.Job + 3*time.Second
		time.Sleep(w.cfg.Wait + w.cfg.Job - time.Second)
		synctest.Wait()
		wantEnds(t, next)
		time.Sleep(within - (w.cfg.Wait + w.cfg.Job - time.Second))
		synctest.Wait()
		wantEnds(t, next, "0 AUDIO_LOST", "1 AUDIO_LOST")
	})
}

// A job of which nothing is heard ends its utterance in time as well.
func TestSilentJobEndsWithinResultTimeout(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		w.utter(s)
		for range 6 {
			time.Sleep(7 * time.Second)
			s.Keepalive()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		wantEnds(t, link, "0 DEADLINE_EXCEEDED")
	})
}

// A client whose frames have no numbers learns where to go on when the scheduler comes to audio that is gone.
func TestAudioGoneIsAcknowledgedWhereItLies(t *testing.T) {
	play(t, func(w *world) {
		s, token := abandon(w)
		again, next, err := w.resume(s, token, 0)
		if err != nil {
			t.Fatal(err)
		}
		if e := again.AudioGone(1); e != nil {
			t.Fatal(e)
		}
		w.say(again, tone(300))
		w.hear(again, session.AudioFrame{Final: true})
		if m := next.last(t, "audio_ack"); m["seq"] != 8.0 {
			t.Errorf("%v", m)
		}
	})
}
