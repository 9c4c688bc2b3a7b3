package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/session"
)

// Who has the terminal message of an utterance is not asked for its audio, also if the store has forgotten the message.
func TestAudioOfAnUtteranceThatEndedIsNotNeeded(t *testing.T) {
	play(t, func(w *world) {
		s, token := abandon(w)
		_, next, err := w.resume(s, token, 1) // the result of the first had come; the append is forgotten
		if err != nil {
			t.Fatal(err)
		}
		m := next.last(t, "session_resumed")
		want := []any{map[string]any{"utterance_index": 1.0, "first_seq": 5.0, "last_seq": 7.0}}
		if diff := cmp.Diff(want, m["audio_needed"]); diff != "" || m["next_audio_seq"].(float64) < 4 {
			t.Errorf("next_audio_seq %v (-want +got):\n%s", m["next_audio_seq"], diff)
		}
	})
}

// Frames of an utterance that has ended need not come again.
func TestNumberedFramesGoOnAfterAudioLost(t *testing.T) {
	play(t, func(w *world) {
		s, token := abandon(w)
		again, next, err := w.resume(s, token, 0)
		if err != nil {
			t.Fatal(err)
		}
		if e := again.Audio(session.AudioFrame{Seq: 9, Data: tone(100)}); e == nil || e.Field != "seq" {
			t.Errorf("audio that is needed was left out: %v", e)
		}
		time.Sleep(w.cfg.Wait + w.cfg.Job + 3*time.Second)
		synctest.Wait()
		wantEnds(t, next, "0 AUDIO_LOST", "1 AUDIO_LOST")
		w.hear(again, session.AudioFrame{Seq: 9, Data: tone(100)})
		w.hear(again, session.AudioFrame{Seq: 10, Data: tone(100)})
		w.hear(again, session.AudioFrame{Seq: 11, Final: true})
		synctest.Wait()
		w.done(w.jobs.jobs()[0], "c")
		synctest.Wait()
		wantEnds(t, next, "0 AUDIO_LOST", "1 AUDIO_LOST", "2 c")
		if held := w.rooms.Audio().Held(); held != 0 {
			t.Errorf("%d bytes are held", held)
		}
		if m := next.last(t, "utterance_committed"); m["first_seq"] != 9.0 || m["last_seq"] != 10.0 {
			t.Errorf("%v", m)
		}
	})
}

// The result of an utterance may come while its audio is sent again. Its client may drop the rest then.
func TestClientDropsAudioOfAnUtteranceThatEndedMeanwhile(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		job := w.utter(s)    // frames 1 to 3, and 4 that ends it
		second := w.utter(s) // 5 to 7, 8
		w.move()
		again, next, err := w.resume(s, link.token(t), 0)
		if err != nil {
			t.Fatal(err)
		}
		w.hear(again, session.AudioFrame{Seq: 1, Data: tone(100)})
		w.done(job, "a") // its node had it all along
		synctest.Wait()
		if e := again.Audio(session.AudioFrame{Seq: 6, Data: tone(100)}); e == nil || e.Field != "seq" {
			t.Errorf("audio that is needed was left out: %v", e)
		}
		for seq := int64(5); seq <= 7; seq++ {
			w.hear(again, session.AudioFrame{Seq: seq, Data: tone(100)})
		}
		synctest.Wait()
		if clip := w.rooms.Audio().Clip(second); clip == nil || len(clip.Data) != len(tone(300)) {
			t.Errorf("the audio of the second is not whole: %v", clip)
		}
		w.done(second, "b")
		wantEnds(t, next, "0 a", "1 b")
		if held := w.rooms.Audio().Held(); held != 0 {
			t.Errorf("%d bytes are held", held)
		}
	})
}
