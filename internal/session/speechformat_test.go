package session_test

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// speechIn passes on a whole spoken result in a format.
func speechIn(w *world, job core.JobID, attempt int, f wire.AudioFormat) {
	h := wire.BinaryHeader{Kind: wire.KindTTS, ActiveJob: wire.ActiveJob{JobID: string(job), AttemptID: attempt}, Last: true, Audio: &f}
	w.rooms.DeliverSpeech(&h, []byte("sound"))
}

// wantFormat checks the format that the last result names; nil: none.
func wantFormat(t *testing.T, link *ear, tts string, want map[string]any) {
	t.Helper()
	synctest.Wait()
	m := link.last(t, "result")
	got, _ := m["tts_audio"].(map[string]any)
	if m["tts"] != tts || !cmp.Equal(want, got) {
		t.Errorf("tts is %v, want %s; tts_audio:\n%s", m["tts"], tts, cmp.Diff(want, got))
	}
}

func formatObject(encoding string, rate, channels float64) map[string]any {
	return map[string]any{"encoding": encoding, "sample_rate": rate, "channels": channels}
}

// TestResultNamesTheFormatOfItsSpeech: as its node declared it, or as speech that came before the result says.
func TestResultNamesTheFormatOfItsSpeech(t *testing.T) {
	opus := wire.AudioFormat{Encoding: "opus", SampleRate: 48_000, Channels: 2}
	const declared = `{"text_tgt":"x","tts":true,"tts_audio":{"encoding":"wav","sample_rate":24000}}`
	wav, pcm := formatObject("wav", 24_000, 1), formatObject("pcm_s16le", 16_000, 1)
	for name, scene := range map[string]func(t *testing.T, w *world){
		"not said": func(t *testing.T, w *world) {
			s, link := w.start(func(in *wire.SessionStart) { in.TTS = true })
			w.doneAs(w.utter(s), 1, `{"text_tgt":"x","tts":true}`)
			wantFormat(t, link, "follows", pcm)
		},
		"declared, and the speech comes later": func(t *testing.T, w *world) {
			s, link := w.start(func(in *wire.SessionStart) { in.TTS = true })
			w.doneAs(w.utter(s), 1, declared)
			wantFormat(t, link, "follows", wav)
		},
		"uploaded before the result": func(t *testing.T, w *world) {
			s, link := w.start(func(in *wire.SessionStart) { in.TTS = true })
			job := w.utter(s)
			speechIn(w, job, 1, opus)
			w.doneAs(job, 1, `{"text_tgt":"x","tts":true}`)
			wantFormat(t, link, "follows", formatObject("opus", 48_000, 2))
			h, _, err := wire.ReadBinary(link.last(t, "binary")["data"].([]byte))
			if err != nil || h.Audio == nil || *h.Audio != opus {
				t.Errorf("the speech says %+v, %v", h.Audio, err)
			}
		},
		"uploaded by an attempt that was given up": func(t *testing.T, w *world) {
			s, link := w.start(func(in *wire.SessionStart) { in.TTS = true })
			job := w.utter(s)
			speechIn(w, job, 1, opus)
			w.doneAs(job, 2, declared)
			wantFormat(t, link, "follows", wav)
		},
		"uploaded again by the next attempt": func(t *testing.T, w *world) {
			s, link := w.start(func(in *wire.SessionStart) { in.TTS = true })
			job := w.utter(s)
			speechIn(w, job, 1, wire.AudioFormat{Encoding: "wav"})
			speechIn(w, job, 2, opus)
			w.doneAs(job, 2, `{"text_tgt":"x","tts":true}`)
			wantFormat(t, link, "follows", formatObject("opus", 48_000, 2))
		},
		"sent again after a resume": func(t *testing.T, w *world) {
			s, link := w.start(func(in *wire.SessionStart) { in.TTS = true })
			w.doneAs(w.utter(s), 1, declared)
			synctest.Wait()
			s.Detach()
			_, next, err := w.resume(s, link.token(t), 0)
			if err != nil {
				t.Fatal(err)
			}
			wantFormat(t, next, "follows", wav)
		},
		"lost with an instance": func(t *testing.T, w *world) {
			s, link := w.start(func(in *wire.SessionStart) { in.TTS = true })
			w.doneAs(w.utter(s), 1, declared)
			synctest.Wait()
			w.move()
			_, next, err := w.resume(s, link.token(t), 0)
			if err != nil {
				t.Fatal(err)
			}
			wantFormat(t, next, "lost", nil)
		},
		"none": func(t *testing.T, w *world) {
			s, link := w.start(func(in *wire.SessionStart) { in.TTS = true })
			w.doneAs(w.utter(s), 1, `{"text_tgt":"x","tts_audio":{"encoding":"wav"}}`)
			wantFormat(t, link, "none", nil)
		},
		"nobody listens": func(t *testing.T, w *world) {
			s, link := w.start()
			w.doneAs(w.utter(s), 1, declared)
			synctest.Wait()
			if m := link.last(t, "result"); m["tts"] != nil || m["tts_audio"] != nil {
				t.Errorf("%v", m)
			}
		},
	} {
		t.Run(name, func(t *testing.T) { play(t, func(w *world) { scene(t, w) }) })
	}
}

// TestSpeechThatWasRefused: its result says that it is lost, or who listens is warned, and nobody waits for it.
func TestSpeechThatWasRefused(t *testing.T) {
	t.Run("before its turn", func(t *testing.T) {
		play(t, func(w *world) {
			s, link := w.start(func(in *wire.SessionStart) { in.TTS = true })
			first, second := w.utter(s), w.utter(s)
			w.doneAs(second, 1, `{"text_tgt":"x","tts":true}`)
			w.rooms.LoseSpeech(wire.ActiveJob{JobID: string(second), AttemptID: 1})
			w.doneAs(first, 1, `{"text_tgt":"x"}`)
			wantFormat(t, link, "lost", nil)
		})
	})
	t.Run("after its result", func(t *testing.T) {
		play(t, func(w *world) {
			s, link := w.start(func(in *wire.SessionStart) { in.TTS = true })
			job := w.utter(s)
			w.doneAs(job, 1, `{"text_tgt":"x","tts":true}`)
			s.End()
			synctest.Wait()
			w.rooms.LoseSpeech(wire.ActiveJob{JobID: string(job), AttemptID: 2}) // another's
			synctest.Wait()
			if got := link.heard("session_ended"); len(got) != 0 {
				t.Fatal("speech that nobody refused is not waited for")
			}
			w.rooms.LoseSpeech(wire.ActiveJob{JobID: string(job), AttemptID: 1})
			synctest.Wait()
			if m := link.last(t, "warning"); m["code"] != "SPEECH_LOST" {
				t.Errorf("%v", m)
			}
			link.last(t, "session_ended")
		})
	})
	play(t, func(w *world) { w.rooms.LoseSpeech(wire.ActiveJob{JobID: "job-unknown", AttemptID: 1}) })
}
