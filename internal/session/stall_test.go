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

// hear sends one piece of audio.
func (w *world) hear(s *session.Connection, words session.AudioFrame) {
	w.t.Helper()
	if e := s.Audio(words); e != nil {
		w.t.Fatal(e)
	}
}

// parts describes what was committed: index, name, request, reason, and the index it continues.
func parts(e *ear) []string {
	var list []string
	for _, m := range e.heard("utterance_committed") {
		text := fmt.Sprint(m["utterance_index"], " ", m["utterance_id"], " ", m["request_id"], " ", m["reason"])
		if of, ok := m["continues"]; ok {
			text += fmt.Sprint(" of ", of)
		}
		list = append(list, text)
	}
	return list
}

// A connection that stalls in mid-utterance answers no ping: the utterance stays open, the connection is closed, and the
// rest of the sentence comes over the next one.
func TestStallIsNotAPause(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		w.say(s, tone(500))
		link.stall(true)
		time.Sleep(1400 * time.Millisecond)
		synctest.Wait()
		wantCommitted(t, link)
		link.stall(false) // what was stuck arrives
		w.say(s, tone(300))
		w.hear(s, session.AudioFrame{Final: true})
		synctest.Wait()
		wantCommitted(t, link, "manual")
		if m := link.last(t, "utterance_committed"); m["duration_ms"] != 800.0 {
			t.Errorf("it was cut: %v", m)
		}
	})
}

func TestUnansweredPingClosesTheConnectionAndKeepsTheUtterance(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		w.say(s, tone(500))
		link.stall(true)
		time.Sleep(6200 * time.Millisecond)
		synctest.Wait()
		if code, e := link.closed(); code != wire.CloseSlow || e == nil {
			t.Fatalf("closed with %d, %v", code, e)
		}
		s.Detach()
		wantCommitted(t, link)
		again, next, err := w.resume(s, link.token(t), 0)
		if err != nil {
			t.Fatal(err)
		}
		w.say(again, tone(300))
		w.hear(again, session.AudioFrame{Final: true})
		synctest.Wait()
		if m := next.last(t, "utterance_committed"); m["duration_ms"] != 800.0 || m["first_seq"] != 1.0 || m["last_seq"] != 8.0 {
			t.Errorf("%v", m)
		}
	})
}

// The pong to an earlier ping says nothing about audio that came since.
func TestPongAfterAudioEndsNothing(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		w.say(s, tone(500))
		link.stall(true)
		time.Sleep(1100 * time.Millisecond)
		w.say(s, tone(100))
		link.mu.Lock()
		pings := link.pings
		link.mu.Unlock()
		if pings != 1 {
			t.Fatalf("%d pings", pings)
		}
		s.Pong([]byte("of something else"))
		synctest.Wait()
		wantCommitted(t, link)
	})
}

// Audio that names an utterance which a pause has ended is a further part of it, and so is unnamed audio after it.
func TestAudioAfterAPauseIsAFurtherPart(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		if e := s.Begin("u-1", "es", "req-1"); e != nil {
			t.Fatal(e)
		}
		w.say(s, tone(300))
		time.Sleep(time.Second)
		w.hear(s, session.AudioFrame{Utterance: "u-1", Data: tone(100)})
		time.Sleep(1500 * time.Millisecond)
		w.say(s, tone(200)) // unnamed
		w.hear(s, session.AudioFrame{Utterance: "u-1", Final: true})
		w.hear(s, session.AudioFrame{Utterance: "u-1", Data: tone(100)}) // after is_final: late
		w.say(s, tone(100))
		w.hear(s, session.AudioFrame{Final: true})
		synctest.Wait()
		id := string(s.ID())
		if diff := cmp.Diff([]string{
			"0 u-1 req-1 pause", "1 u-1 req-1~1 pause of 0", "2 u-1 req-1~2 manual of 0", "3 <nil> " + id + ":9 manual",
		}, parts(link)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		for i, want := range []string{"es>en", "es>en", "es>en", "en>es"} {
			m := link.heard("utterance_committed")[i]
			if got := fmt.Sprint(m["src_lang"], ">", m["tgt_lang"]); got != want {
				t.Errorf("utterance %d is %s, want %s", i, got, want)
			}
		}
		if n := len(link.heard("warning")); n != 1 {
			t.Errorf("%d warnings, want 1", n)
		}
		for i, job := range w.jobs.jobs() {
			w.done(job, fmt.Sprint("r", i))
		}
		synctest.Wait()
		results := link.heard("result")
		if len(results) != 4 || results[1]["continues"] != 0.0 || results[0]["continues"] != nil {
			t.Errorf("%v", results)
		}
	})
}

// An is_final for an utterance that a pause has ended says that nothing follows: it makes no job, and unnamed audio after
// it begins another utterance.
func TestIsFinalAfterAPauseMakesNothing(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		if e := s.Begin("u-1", "", "req-1"); e != nil {
			t.Fatal(e)
		}
		w.say(s, tone(300))
		time.Sleep(time.Second)
		w.hear(s, session.AudioFrame{Final: true})
		w.say(s, tone(100))
		w.hear(s, session.AudioFrame{Final: true})
		synctest.Wait()
		if diff := cmp.Diff([]string{"0 u-1 req-1 pause", "1 <nil> " + string(s.ID()) + ":5 manual"}, parts(link)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// What comes after the maximum length goes on as a further part, also if its client names nothing.
func TestAudioAfterTheMaximumIsAFurtherPart(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start(func(in *wire.SessionStart) { in.Segmentation.MaxUtteranceMS = 1000 })
		w.say(s, tone(2300))
		w.hear(s, session.AudioFrame{Final: true})
		synctest.Wait()
		id := string(s.ID())
		if diff := cmp.Diff([]string{
			"0 <nil> " + id + ":1 max_duration", "1 <nil> " + id + ":1~1 max_duration of 0", "2 <nil> " + id + ":1~2 manual of 0",
		}, parts(link)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A further part is one also after a takeover: the state says of what.
func TestFurtherPartAfterTakeover(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		token := link.token(t)
		if e := s.Begin("u-1", "", "req-1"); e != nil {
			t.Fatal(e)
		}
		w.say(s, tone(300))
		time.Sleep(time.Second)
		synctest.Wait()
		w.done(w.jobs.jobs()[0], "a")
		w.move()
		again, next, err := w.resume(s, token, 1)
		if err != nil {
			t.Fatal(err)
		}
		w.hear(again, session.AudioFrame{Seq: 4, Utterance: "u-1", Data: tone(100), Final: true})
		synctest.Wait()
		if diff := cmp.Diff([]string{"1 u-1 req-1~1 manual of 0"}, parts(next)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// Two audio_chunks of different utterances in a row: each has its own frame.
func TestFrameOfTheNextUtteranceIsNotCountedAsOwn(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		token := link.token(t)
		w.hear(s, session.AudioFrame{Utterance: "u-1", Data: tone(100)})
		w.hear(s, session.AudioFrame{Utterance: "u-2", Data: tone(100)}) // ends u-1
		synctest.Wait()
		m := link.last(t, "utterance_committed")
		if m["first_seq"] != 1.0 || m["last_seq"] != 1.0 {
			t.Fatalf("%v", m)
		}
		w.done(w.jobs.jobs()[0], "a")
		w.move()
		again, next, err := w.resume(s, token, 1)
		if err != nil {
			t.Fatal(err)
		}
		if m := next.last(t, "session_resumed"); m["next_audio_seq"] != 2.0 {
			t.Fatalf("the open utterance's first frame is not asked for: %v", m)
		}
		w.hear(again, session.AudioFrame{Seq: 2, Utterance: "u-2", Data: tone(100), Final: true})
		synctest.Wait()
		if m := next.last(t, "utterance_committed"); m["utterance_id"] != "u-2" || m["first_seq"] != 2.0 {
			t.Errorf("%v", m)
		}
	})
}

// A frame that is refused begins nothing and is not counted, also if it would have ended another utterance.
func TestRefusedFrameIsNotCounted(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		w.hear(s, session.AudioFrame{Seq: 1, Utterance: "u-1", Data: tone(100)})
		if e := s.Audio(session.AudioFrame{Seq: 2, Utterance: "u-2", Data: []byte("odd")}); e == nil || e.Field != "audio" {
			t.Fatalf("half a sample: %v", e)
		}
		w.hear(s, session.AudioFrame{Seq: 2, Utterance: "u-2", Data: tone(100), Final: true})
		synctest.Wait()
		if diff := cmp.Diff([]float64{1, 2}, []float64{
			link.heard("utterance_committed")[0]["last_seq"].(float64), link.heard("utterance_committed")[1]["first_seq"].(float64),
		}); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestManualSegmentation(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start(func(in *wire.SessionStart) { in.Segmentation.Mode = wire.SegmentManual })
		if m := link.last(t, "session_started")["segmentation"].(map[string]any); m["mode"] != "manual" {
			t.Errorf("%v", m)
		}
		w.say(s, hush(500))
		w.say(s, tone(500))
		w.say(s, hush(3000))
		time.Sleep(30 * time.Second)
		w.say(s, tone(100))
		synctest.Wait()
		wantCommitted(t, link)
		w.hear(s, session.AudioFrame{Final: true})
		synctest.Wait()
		wantCommitted(t, link, "manual")
		if m := link.last(t, "utterance_committed"); m["duration_ms"] != 4100.0 {
			t.Errorf("not all that was said: %v", m)
		}
		w.say(s, tone(12_000))
		synctest.Wait()
		wantCommitted(t, link, "manual", "max_duration")
	})
}

// The result of an utterance says how long it waited, and its total counts from the end of the utterance.
func TestLatencyCountsTheWait(t *testing.T) {
	play(t, func(w *world) {
		w.jobs.refuse = wire.Errorf(wire.AllCandidatesFullOrFailed, "full")
		s, link := w.start()
		w.say(s, tone(300))
		w.hear(s, session.AudioFrame{Final: true})
		time.Sleep(4 * time.Second)
		w.jobs.mu.Lock()
		w.jobs.refuse = nil
		w.jobs.mu.Unlock()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		w.done(w.jobs.jobs()[0], "a") // a second after the job was made
		synctest.Wait()
		latency := link.last(t, "result")["latency"].(map[string]any)
		wait, total := latency["wait_ms"].(float64), latency["total_ms"].(float64)
		if wait < 4000 || wait > 6000 || total != wait+1000 {
			t.Errorf("%v", latency)
		}
	})
}
