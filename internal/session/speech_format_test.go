package session_test

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

func deliverWholeSpeech(h *harness, job core.JobID, attempt int, f wire.AudioFormat) {
	header := wire.BinaryHeader{Kind: wire.KindTTS, ActiveJob: wire.ActiveJob{JobID: string(job), AttemptID: attempt}, Last: true, Audio: &f}
	h.registry.DeliverSpeech(&header, []byte("audio"))
}

func wantFormat(t *testing.T, conn *fakeConn, tts string, want map[string]any) {
	t.Helper()
	synctest.Wait()
	m := conn.last(t, "result")
	got, _ := m["tts_audio"].(map[string]any)
	if m["tts"] != tts || !cmp.Equal(want, got) {
		t.Errorf("tts is %v, want %s; tts_audio:\n%s", m["tts"], tts, cmp.Diff(want, got))
	}
}

func formatObject(encoding string, rate, channels float64) map[string]any {
	return map[string]any{"encoding": encoding, "sample_rate": rate, "channels": channels}
}

func TestResultNamesTheFormatOfItsSpeech(t *testing.T) {
	opus := wire.AudioFormat{Encoding: "opus", SampleRate: 48_000, Channels: 2}
	const declared = `{"text_tgt":"x","tts":true,"tts_audio":{"encoding":"wav","sample_rate":24000}}`
	wav, pcm := formatObject("wav", 24_000, 1), formatObject("pcm_s16le", 16_000, 1)
	for name, scene := range map[string]func(t *testing.T, h *harness){
		"no format declared": func(t *testing.T, h *harness) {
			s, conn := h.start(func(in *wire.SessionStart) { in.TTS = true })
			h.completeAttempt(h.commit(s), 1, `{"text_tgt":"x","tts":true}`)
			wantFormat(t, conn, "follows", pcm)
		},
		"declared, and the speech follows later": func(t *testing.T, h *harness) {
			s, conn := h.start(func(in *wire.SessionStart) { in.TTS = true })
			h.completeAttempt(h.commit(s), 1, declared)
			wantFormat(t, conn, "follows", wav)
		},
		"uploaded before the result": func(t *testing.T, h *harness) {
			s, conn := h.start(func(in *wire.SessionStart) { in.TTS = true })
			job := h.commit(s)
			deliverWholeSpeech(h, job, 1, opus)
			h.completeAttempt(job, 1, `{"text_tgt":"x","tts":true}`)
			wantFormat(t, conn, "follows", formatObject("opus", 48_000, 2))
			header, _, err := wire.ReadBinary(conn.last(t, "binary")["data"].([]byte))
			if err != nil || header.Audio == nil || *header.Audio != opus {
				t.Errorf("the format in the speech is %+v, %v", header.Audio, err)
			}
		},
		"uploaded by an attempt that was given up": func(t *testing.T, h *harness) {
			s, conn := h.start(func(in *wire.SessionStart) { in.TTS = true })
			job := h.commit(s)
			deliverWholeSpeech(h, job, 1, opus)
			h.completeAttempt(job, 2, declared)
			wantFormat(t, conn, "follows", wav)
		},
		"uploaded again by the next attempt": func(t *testing.T, h *harness) {
			s, conn := h.start(func(in *wire.SessionStart) { in.TTS = true })
			job := h.commit(s)
			deliverWholeSpeech(h, job, 1, wire.AudioFormat{Encoding: "wav"})
			deliverWholeSpeech(h, job, 2, opus)
			h.completeAttempt(job, 2, `{"text_tgt":"x","tts":true}`)
			wantFormat(t, conn, "follows", formatObject("opus", 48_000, 2))
		},
		"sent again after a resume": func(t *testing.T, h *harness) {
			s, conn := h.start(func(in *wire.SessionStart) { in.TTS = true })
			h.completeAttempt(h.commit(s), 1, declared)
			synctest.Wait()
			s.Detach()
			_, nextConn, err := h.resume(s, conn.resumeToken(t), 0)
			if err != nil {
				t.Fatal(err)
			}
			wantFormat(t, nextConn, "follows", wav)
		},
		"lost with an instance": func(t *testing.T, h *harness) {
			s, conn := h.start(func(in *wire.SessionStart) { in.TTS = true })
			h.completeAttempt(h.commit(s), 1, declared)
			synctest.Wait()
			h.replaceInstance()
			_, nextConn, err := h.resume(s, conn.resumeToken(t), 0)
			if err != nil {
				t.Fatal(err)
			}
			wantFormat(t, nextConn, "lost", nil)
		},
		"none": func(t *testing.T, h *harness) {
			s, conn := h.start(func(in *wire.SessionStart) { in.TTS = true })
			h.completeAttempt(h.commit(s), 1, `{"text_tgt":"x","tts_audio":{"encoding":"wav"}}`)
			wantFormat(t, conn, "none", nil)
		},
		"no speech requested": func(t *testing.T, h *harness) {
			s, conn := h.start()
			h.completeAttempt(h.commit(s), 1, declared)
			synctest.Wait()
			if m := conn.last(t, "result"); m["tts"] != nil || m["tts_audio"] != nil {
				t.Errorf("result: %v", m)
			}
		},
	} {
		t.Run(name, func(t *testing.T) { run(t, func(h *harness) { scene(t, h) }) })
	}
}

func TestRefusedSpeechIsLost(t *testing.T) {
	t.Run("before its turn", func(t *testing.T) {
		run(t, func(h *harness) {
			s, conn := h.start(func(in *wire.SessionStart) { in.TTS = true })
			first, second := h.commit(s), h.commit(s)
			h.completeAttempt(second, 1, `{"text_tgt":"x","tts":true}`)
			h.registry.LoseSpeech(wire.ActiveJob{JobID: string(second), AttemptID: 1})
			h.completeAttempt(first, 1, `{"text_tgt":"x"}`)
			wantFormat(t, conn, "lost", nil)
		})
	})
	t.Run("after its result", func(t *testing.T) {
		run(t, func(h *harness) {
			s, conn := h.start(func(in *wire.SessionStart) { in.TTS = true })
			job := h.commit(s)
			h.completeAttempt(job, 1, `{"text_tgt":"x","tts":true}`)
			s.End()
			synctest.Wait()
			h.registry.LoseSpeech(wire.ActiveJob{JobID: string(job), AttemptID: 2}) // another attempt
			synctest.Wait()
			if got := conn.received("session_ended"); len(got) != 0 {
				t.Fatal("the session ended before speech that was not refused")
			}
			h.registry.LoseSpeech(wire.ActiveJob{JobID: string(job), AttemptID: 1})
			synctest.Wait()
			if m := conn.last(t, "warning"); m["code"] != "SPEECH_LOST" {
				t.Errorf("warning: %v", m)
			}
			conn.last(t, "session_ended")
		})
	})
	run(t, func(h *harness) { h.registry.LoseSpeech(wire.ActiveJob{JobID: "job-unknown", AttemptID: 1}) })
}
