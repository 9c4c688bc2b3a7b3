package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/session"
)

// Audio that names an utterance after its cancel is late, also if a pause had ended it before.
func TestAudioAfterCancelOfAWaitingUtteranceIsLate(t *testing.T) {
	for name, byJob := range map[string]bool{"by name": false, "by job": true} {
		t.Run(name, func(t *testing.T) {
			play(t, func(w *world) {
				s, link := w.start()
				if e := s.Begin("u-1", "", "req-1"); e != nil {
					t.Fatal(e)
				}
				w.say(s, tone(300))
				time.Sleep(time.Second)
				synctest.Wait()
				wantCommitted(t, link, "pause")
				id, job := "u-1", w.jobs.jobs()[0]
				if byJob {
					id = ""
				} else {
					job = ""
				}
				if e := s.Cancel(id, job); e != nil {
					t.Fatal(e)
				}
				w.hear(s, session.AudioFrame{Utterance: "u-1", Data: tone(100)})
				w.hear(s, session.AudioFrame{Utterance: "u-1", Final: true})
				synctest.Wait()
				wantCommitted(t, link, "pause")
				wantEnds(t, link, "0 CANCELLED")
				if n := len(link.heard("warning")); n != 1 {
					t.Errorf("%d warnings", n)
				}
			})
		})
	}
}

// A cancel by name is about all parts of the utterance that has it.
func TestCancelByNameEndsEveryPart(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		if e := s.Begin("u-1", "", "req-1"); e != nil {
			t.Fatal(e)
		}
		for range 3 {
			w.say(s, tone(300))
			time.Sleep(time.Second)
		}
		synctest.Wait()
		wantCommitted(t, link, "pause", "pause", "pause")
		if e := s.Cancel("u-1", ""); e != nil {
			t.Fatal(e)
		}
		synctest.Wait()
		wantEnds(t, link, "0 CANCELLED", "1 CANCELLED", "2 CANCELLED")
	})
}

// An utterance whose audio is needed again can be cancelled.
func TestCancelOfAnUtteranceThatNeedsItsAudio(t *testing.T) {
	play(t, func(w *world) {
		s, token := abandon(w)
		again, next, err := w.resume(s, token, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range next.heard("utterance_committed") {
			if e := again.Cancel("", w.jobOf(m)); e != nil {
				t.Fatal(e)
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		wantEnds(t, next, "0 CANCELLED", "1 CANCELLED")
	})
}

func (w *world) jobOf(m map[string]any) core.JobID { return core.JobID(m["job_id"].(string)) }
