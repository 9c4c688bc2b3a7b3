package session_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

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
	for name, how := range map[string]struct{ left, slow bool }{
		"a chunk arrived before the connection was lost":     {left: true},
		"a chunk was not written when the connection broke":  {left: true, slow: true},
		"a chunk arrived before the connection was replaced": {},
	} {
		for last, want := range []int{0: 0, 1: 1} {
			t.Run(fmt.Sprintf("%s, after message %d", name, last), func(t *testing.T) {
				run(t, func(h *harness) {
					s, conn := h.start(func(in *wire.SessionStart) { in.TTS = true })
					conn.slow = how.slow
					job := h.commit(s)
					h.completeAttempt(job, 1, `{"text_tgt":"a","tts":true}`)
					deliverSpeech(t, h, job, 1, 0, how.slow) // a slow connection has not written all of it
					if how.left {
						s.Detach()
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
					if want > 0 && (warnings[0]["code"] != string(wire.SpeechLost) || warnings[0]["job_id"] != string(job)) {
						t.Errorf("%v", warnings[0])
					}
					if m := next.last(t, "session_resumed"); m["speech"] != nil {
						t.Errorf("session_resumed: %v", m)
					}
				})
			})
		}
	}
}

// Speech of which nothing was sent before the connection was lost comes after the resume, which announces it: what arrived meanwhile, and the
// rest.
func TestSpeechThatArrivesBetweenConnections(t *testing.T) {
	for name, chunks := range map[string]int{"none of it arrived meanwhile": 0, "a part of it arrived meanwhile": 1, "all of it arrived meanwhile": 2} {
		for last, announced := range [][]any{0: nil, 1: {"the job"}} {
			t.Run(fmt.Sprintf("%s, after message %d", name, last), func(t *testing.T) {
				run(t, func(h *harness) {
					s, conn := h.start(func(in *wire.SessionStart) { in.TTS = true })
					job := h.commit(s)
					h.completeAttempt(job, 1, `{"text_tgt":"a","tts":true}`)
					synctest.Wait()
					s.Detach()
					for chunk := range chunks {
						deliverSpeech(t, h, job, 1, chunk, chunk == 1)
					}
					resumed, next, err := h.resume(s, conn.resumeToken(t), int64(last))
					if err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					for chunk := chunks; chunk < 2; chunk++ {
						deliverSpeech(t, h, job, 1, chunk, chunk == 1)
					}
					synctest.Wait()
					if announced != nil {
						announced = []any{string(job)}
					}
					if got, _ := next.last(t, "session_resumed")["speech"].([]any); !cmp.Equal(got, announced) {
						t.Errorf("announced %v, want %v", got, announced)
					}
					var order []string
					for _, m := range next.received("result", "binary", "warning") {
						order = append(order, m["type"].(string))
					}
					want := []string{"result", "binary", "binary"}[last:]
					if !cmp.Equal(order, want) {
						t.Errorf("received %v, want %v", order, want)
					}
					resumed.End()
					synctest.Wait()
					next.last(t, "session_ended")
				})
			})
		}
	}
}

// Speech that arrived while no client was connected is dropped when the client does not come back.
func TestSpeechIsNotKeptForAClientThatIsGone(t *testing.T) {
	run(t, func(h *harness) {
		s, _ := h.start(func(in *wire.SessionStart) { in.TTS = true })
		job := h.commit(s)
		h.completeAttempt(job, 1, `{"text_tgt":"a","tts":true}`)
		synctest.Wait()
		s.Detach()
		deliverSpeech(t, h, job, 1, 0, true)
		if n := s.UnfinishedUtterances(); n != 1 {
			t.Errorf("%d utterances are kept, want one", n)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n := s.UnfinishedUtterances(); n != 0 {
			t.Errorf("%d utterances are kept, want none", n)
		}
	})
}
