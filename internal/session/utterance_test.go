package session_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/wire"
)

// Audio that names an utterance after its cancel is late, also if a pause had ended it before.
func TestAudioAfterCancelIsLate(t *testing.T) {
	for name, byJob := range map[string]bool{"by name": false, "by job": true} {
		t.Run(name, func(t *testing.T) {
			run(t, func(h *harness) {
				s, conn := h.start()
				if e := s.Begin("u-1", "", "req-1"); e != nil {
					t.Fatal(e)
				}
				h.stream(s, tone(300))
				time.Sleep(time.Second)
				synctest.Wait()
				wantCommitted(t, conn, "pause")
				id, job := "u-1", h.dispatcher.jobs()[0]
				if byJob {
					id = ""
				} else {
					job = ""
				}
				if e := s.Cancel(id, job); e != nil {
					t.Fatal(e)
				}
				h.send(s, session.AudioFrame{Utterance: "u-1", Data: tone(100)})
				h.send(s, session.AudioFrame{Utterance: "u-1", Final: true})
				synctest.Wait()
				wantCommitted(t, conn, "pause")
				wantTerminals(t, conn, "0 CANCELLED")
				if n := len(conn.received("warning")); n != 1 {
					t.Errorf("%d warnings", n)
				}
			})
		})
	}
}

func TestCancelByNameCancelsEveryPart(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		if e := s.Begin("u-1", "", "req-1"); e != nil {
			t.Fatal(e)
		}
		for range 3 {
			h.stream(s, tone(300))
			time.Sleep(time.Second)
		}
		synctest.Wait()
		wantCommitted(t, conn, "pause", "pause", "pause")
		if e := s.Cancel("u-1", ""); e != nil {
			t.Fatal(e)
		}
		synctest.Wait()
		wantTerminals(t, conn, "0 CANCELLED", "1 CANCELLED", "2 CANCELLED")
	})
}

// The language and the request of an utterance apply also if a pause comes before the first speech.
func TestUtteranceStartAppliesAfterAPause(t *testing.T) {
	for name, named := range map[string]string{"named": "u-1", "unnamed": ""} {
		t.Run(name, func(t *testing.T) {
			run(t, func(h *harness) {
				s, conn := h.start()
				if e := s.Begin("u-1", "es", "req-1"); e != nil {
					t.Fatal(e)
				}
				h.stream(s, silence(200))
				time.Sleep(3 * time.Second)
				synctest.Wait()
				wantCommitted(t, conn)
				h.send(s, session.AudioFrame{Utterance: named, Data: tone(300)})
				h.send(s, session.AudioFrame{Final: true})
				synctest.Wait()
				if diff := cmp.Diff([]string{"0 u-1 req-1 manual"}, committedParts(conn)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if m := conn.last(t, "utterance_committed"); m["src_lang"] != "es" {
					t.Errorf("its language is %v", m["src_lang"])
				}
			})
		})
	}
}

// An is_final that names another utterance does not make the last one final.
func TestIsFinalOfAnotherUtterance(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		h.send(s, session.AudioFrame{Utterance: "u-1", Data: tone(300)})
		h.send(s, session.AudioFrame{Utterance: "u-2", Final: true})
		h.send(s, session.AudioFrame{Utterance: "u-1", Data: tone(300)})
		h.send(s, session.AudioFrame{Utterance: "u-1", Final: true})
		synctest.Wait()
		wantCommitted(t, conn, "manual", "manual")
	})
}

// Audio after the end that its client has set makes no second job.
func TestAudioAfterIsFinalIsLate(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		if e := s.Begin("u-1", "", ""); e != nil {
			t.Fatal(e)
		}
		h.stream(s, tone(300))
		if e := s.Audio(session.AudioFrame{Utterance: "u-1", Final: true}); e != nil {
			t.Fatal(e)
		}
		synctest.Wait()
		wantCommitted(t, conn, "manual")
		for _, late := range []session.AudioFrame{
			{Utterance: "u-1", Data: tone(100)}, {Utterance: "u-1", Final: true}, {Utterance: "u-1", Data: tone(100), Final: true}, {Final: true},
		} {
			if e := s.Audio(late); e != nil {
				t.Fatal(e)
			}
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		wantCommitted(t, conn, "manual")
		if n := len(conn.received("warning")); n != 2 {
			t.Errorf("%d warnings, want 2, for the audio", n)
		}
		if n := len(h.dispatcher.jobs()); n != 1 {
			t.Errorf("%d jobs, want 1", n)
		}
	})
}

func TestEachUtteranceHasItsLanguage(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		for _, src := range []string{"es", "", "en"} {
			if e := s.Audio(session.AudioFrame{Data: tone(100), Src: lang(src), Final: true}); e != nil {
				t.Fatal(e)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if e := s.Audio(session.AudioFrame{Data: tone(100), Src: "fr"}); e == nil || e.Field != "src_lang" {
			t.Errorf("a third language: %v", e)
		}
		var got []string
		for _, m := range conn.received("utterance_committed") {
			got = append(got, m["src_lang"].(string)+">"+m["tgt_lang"].(string))
		}
		if diff := cmp.Diff([]string{"es>en", "en>es", "en>es"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// Audio that names an utterance which a pause has ended is a further part of it, and so is unnamed audio after it.
func TestAudioAfterAPauseIsAFurtherPart(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		if e := s.Begin("u-1", "es", "req-1"); e != nil {
			t.Fatal(e)
		}
		h.stream(s, tone(300))
		time.Sleep(time.Second)
		h.send(s, session.AudioFrame{Utterance: "u-1", Data: tone(100)})
		time.Sleep(1500 * time.Millisecond)
		h.stream(s, tone(200)) // unnamed
		h.send(s, session.AudioFrame{Utterance: "u-1", Final: true})
		h.send(s, session.AudioFrame{Utterance: "u-1", Data: tone(100)}) // after is_final: late
		h.stream(s, tone(100))
		h.send(s, session.AudioFrame{Final: true})
		synctest.Wait()
		id := string(s.ID())
		if diff := cmp.Diff([]string{
			"0 u-1 req-1 pause", "1 u-1 req-1~1 pause of 0", "2 u-1 req-1~2 manual of 0", "3 <nil> " + id + ":9 manual",
		}, committedParts(conn)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		for i, want := range []string{"es>en", "es>en", "es>en", "en>es"} {
			m := conn.received("utterance_committed")[i]
			if got := fmt.Sprint(m["src_lang"], ">", m["tgt_lang"]); got != want {
				t.Errorf("utterance %d is %s, want %s", i, got, want)
			}
		}
		if n := len(conn.received("warning")); n != 1 {
			t.Errorf("%d warnings, want 1", n)
		}
		for i, job := range h.dispatcher.jobs() {
			h.complete(job, fmt.Sprint("r", i))
		}
		synctest.Wait()
		results := conn.received("result")
		if len(results) != 4 || results[1]["continues"] != 0.0 || results[0]["continues"] != nil {
			t.Errorf("results: %v", results)
		}
	})
}

// An is_final for an utterance that a pause has ended says that nothing follows: it makes no job, and unnamed audio after
// it begins another utterance.
func TestIsFinalAfterAPauseMakesNoJob(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		if e := s.Begin("u-1", "", "req-1"); e != nil {
			t.Fatal(e)
		}
		h.stream(s, tone(300))
		time.Sleep(time.Second)
		h.send(s, session.AudioFrame{Final: true})
		h.stream(s, tone(100))
		h.send(s, session.AudioFrame{Final: true})
		synctest.Wait()
		if diff := cmp.Diff([]string{"0 u-1 req-1 pause", "1 <nil> " + string(s.ID()) + ":5 manual"}, committedParts(conn)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// Audio after the maximum duration is a further part, also if its client names nothing.
func TestAudioAfterTheMaximumIsAFurtherPart(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start(func(in *wire.SessionStart) { in.Segmentation.MaxUtteranceMS = 1000 })
		h.stream(s, tone(2300))
		h.send(s, session.AudioFrame{Final: true})
		synctest.Wait()
		id := string(s.ID())
		if diff := cmp.Diff([]string{
			"0 <nil> " + id + ":1 max_duration", "1 <nil> " + id + ":1~1 max_duration of 0", "2 <nil> " + id + ":1~2 manual of 0",
		}, committedParts(conn)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
