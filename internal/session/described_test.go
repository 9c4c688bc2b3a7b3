package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/wire"
)

// The language and the request of an utterance hold also if a pause comes before the first word.
func TestUtteranceStartHoldsOverAPause(t *testing.T) {
	for name, named := range map[string]string{"named": "u-1", "unnamed": ""} {
		t.Run(name, func(t *testing.T) {
			play(t, func(w *world) {
				s, link := w.start()
				if e := s.Begin("u-1", "es", "req-1"); e != nil {
					t.Fatal(e)
				}
				w.say(s, hush(200))
				time.Sleep(3 * time.Second)
				synctest.Wait()
				wantCommitted(t, link)
				w.hear(s, session.AudioFrame{Utterance: named, Data: tone(300)})
				w.hear(s, session.AudioFrame{Final: true})
				synctest.Wait()
				if diff := cmp.Diff([]string{"0 u-1 req-1 manual"}, parts(link)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if m := link.last(t, "utterance_committed"); m["src_lang"] != "es" {
					t.Errorf("its language is %v", m["src_lang"])
				}
			})
		})
	}
}

// An is_final that names another utterance does not make the last one final.
func TestIsFinalOfAnotherUtterance(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		w.hear(s, session.AudioFrame{Utterance: "u-1", Data: tone(300)})
		w.hear(s, session.AudioFrame{Utterance: "u-2", Final: true})
		w.hear(s, session.AudioFrame{Utterance: "u-1", Data: tone(300)})
		w.hear(s, session.AudioFrame{Utterance: "u-1", Final: true})
		synctest.Wait()
		wantCommitted(t, link, "manual", "manual")
	})
}

// What ends an utterance follows session_update also for the open one, in both directions.
func TestModeChangesWhileAnUtteranceIsOpen(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		w.say(s, tone(300))
		link.stall(true)
		time.Sleep(time.Second) // a ping is under way
		synctest.Wait()
		if e := s.Update("", nil, &wire.SessionUpdate{Segmentation: &wire.SessionSegmentation{Mode: wire.SegmentManual}}); e != nil {
			t.Fatal(e)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if code, _ := link.closed(); code != 0 {
			t.Errorf("closed with %d", code)
		}
		link.stall(false)
		if e := s.Update("", nil, &wire.SessionUpdate{Segmentation: &wire.SessionSegmentation{Mode: wire.SegmentAuto}}); e != nil {
			t.Fatal(e)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		wantCommitted(t, link, "pause")
	})
}
