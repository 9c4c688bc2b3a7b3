package session_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// A client learns a minute after a result, or after the last chunk, that no more of its speech comes.
func TestOverdueSpeechIsReportedInTime(t *testing.T) {
	for name, chunks := range map[string]int{"without a chunk": 0, "after a chunk": 1} {
		t.Run(name, func(t *testing.T) {
			run(t, func(h *harness) {
				s, conn := h.start(func(in *wire.SessionStart) { in.TTS = true })
				job := h.commit(s)
				h.completeAttempt(job, 1, `{"text_tgt":"x","tts":true}`)
				for chunk := range chunks {
					time.Sleep(20 * time.Second)
					deliverSpeech(t, h, job, 1, chunk, false)
				}
				time.Sleep(59 * time.Second)
				synctest.Wait()
				if n := len(conn.received("warning")); n != 0 {
					t.Error("the speech was given up too early")
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if n := len(conn.received("warning")); n != 1 {
					t.Errorf("%d warnings after a minute, want 1", n)
				}
			})
		})
	}
}

// Speech that was cut off with the connection is reported when the client resumes, unless its result is sent again and says so.
func TestInterruptedSpeechIsReportedAfterAResume(t *testing.T) {
	for name, how := range map[string]struct{ before, left, slow bool }{
		"a chunk arrived before the connection was lost":     {before: true, left: true},
		"a chunk was not written when the connection broke":  {before: true, left: true, slow: true},
		"the first chunk arrived after that":                 {left: true},
		"a chunk arrived before the connection was replaced": {before: true},
	} {
		for last, want := range []int{0: 0, 1: 1} {
			t.Run(fmt.Sprintf("%s, after message %d", name, last), func(t *testing.T) {
				run(t, func(h *harness) {
					s, conn := h.start(func(in *wire.SessionStart) { in.TTS = true })
					conn.slow = how.slow
					job := h.commit(s)
					h.completeAttempt(job, 1, `{"text_tgt":"a","tts":true}`)
					if how.before {
						deliverSpeech(t, h, job, 1, 0, how.slow) // a slow connection has not written all of it
					}
					if how.left {
						s.Detach()
					}
					if !how.before {
						deliverSpeech(t, h, job, 1, 0, false)
					}
					_, next, err := h.resume(s, conn.resumeToken(t), int64(last))
					if err != nil {
						t.Fatal(err)
					}
					deliverSpeech(t, h, job, 1, 1, true)
					synctest.Wait()
					warnings := next.received("warning")
					if len(warnings) != want {
						t.Fatalf("%d warnings, want %d: %v", len(warnings), want, warnings)
					}
					if want > 0 && (warnings[0]["code"] != string(wire.SpeechLost) || !strings.Contains(warnings[0]["detail"].(string), string(job))) {
						t.Errorf("%v", warnings[0])
					}
				})
			})
		}
	}
}
