package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/wire"
)

// committed says of every utterance why it ended, where it was cut, and how long it is.
func committed(e *ear) []string {
	var list []string
	for _, m := range e.heard("utterance_committed") {
		list = append(list, m["reason"].(string))
	}
	return list
}

func wantCommitted(t *testing.T, e *ear, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, committed(e)); diff != "" {
		t.Errorf("committed (-want +got):\n%s", diff)
	}
}

func TestAnUtteranceEndsByHand(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		w.utter(s)
		m := link.last(t, "utterance_committed")
		if m["reason"] != "manual" || m["first_seq"] != 1.0 || m["last_seq"] != 3.0 || m["duration_ms"] != 300.0 || m["utterance_index"] != 0.0 {
			t.Errorf("%v", m)
		}
		if ack := link.last(t, "audio_ack"); ack["seq"] != 4.0 { // the end counts as a frame, too
			t.Errorf("%v", ack)
		}
	})
}

func TestAnUtteranceEndsWithoutAudio(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		w.say(s, tone(500))
		time.Sleep(899 * time.Millisecond) // 100 passed in saying it
		synctest.Wait()
		wantCommitted(t, link)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		wantCommitted(t, link, "pause")
	})
}

func TestAnUtteranceEndsInSilence(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		w.say(s, hush(3000)) // a microphone that nobody speaks into
		w.say(s, tone(500))
		w.say(s, hush(900))
		w.say(s, tone(200)) // a short pause is none
		wantCommitted(t, link)
		w.say(s, hush(1000))
		synctest.Wait()
		wantCommitted(t, link, "silence")
		if m := link.last(t, "utterance_committed"); m["duration_ms"] != 300.0+500+900+200+1000 {
			t.Errorf("the silence before it counts: %v", m)
		}
		w.say(s, hush(5000))
		synctest.Wait()
		wantCommitted(t, link, "silence")
		if held := w.rooms.Audio().Held(); held > 100_000+32*400 {
			t.Errorf("%d bytes are held for silence", held)
		}
	})
}

func TestAnUtteranceIsOnlySoLong(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start(func(in *wire.SessionStart) { in.Segmentation.MaxUtteranceMS = 2000 })
		w.say(s, tone(5000))
		synctest.Wait()
		wantCommitted(t, link, "max_duration", "max_duration")
		if e := s.Audio(session.AudioFrame{Final: true}); e != nil {
			t.Fatal(e)
		}
		synctest.Wait()
		wantCommitted(t, link, "max_duration", "max_duration", "manual")
	})
}

// TestAudioAfterIsFinalIsLate: what comes after the end that its client has set makes no second job.
func TestAudioAfterIsFinalIsLate(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		if e := s.Begin("u-1", "", ""); e != nil {
			t.Fatal(e)
		}
		w.say(s, tone(300))
		if e := s.Audio(session.AudioFrame{Utterance: "u-1", Final: true}); e != nil {
			t.Fatal(e)
		}
		synctest.Wait()
		wantCommitted(t, link, "manual")
		for _, late := range []session.AudioFrame{
			{Utterance: "u-1", Data: tone(100)}, {Utterance: "u-1", Final: true}, {Utterance: "u-1", Data: tone(100), Final: true}, {Final: true},
		} {
			if e := s.Audio(late); e != nil {
				t.Fatal(e)
			}
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		wantCommitted(t, link, "manual")
		if n := len(link.heard("warning")); n != 2 {
			t.Errorf("%d warnings, want 2, for the audio", n)
		}
		if n := len(w.jobs.jobs()); n != 1 {
			t.Errorf("%d jobs, want 1", n)
		}
	})
}

func TestNothingSaidIsNoUtterance(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		if e := s.Begin("u-1", "es", ""); e != nil {
			t.Fatal(e)
		}
		if e := s.Audio(session.AudioFrame{Final: true}); e != nil {
			t.Fatal(e)
		}
		w.say(s, hush(2000))
		time.Sleep(3 * time.Second)
		synctest.Wait()
		wantCommitted(t, link)
		if held := w.rooms.Audio().Held(); held != 0 {
			t.Errorf("%d bytes are held", held)
		}
	})
}

func TestEachUtteranceHasItsLanguage(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
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
		for _, m := range link.heard("utterance_committed") {
			got = append(got, m["src_lang"].(string)+">"+m["tgt_lang"].(string))
		}
		if diff := cmp.Diff([]string{"es>en", "en>es", "en>es"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
