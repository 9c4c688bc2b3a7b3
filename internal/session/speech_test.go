package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/wire"
)

// deliverWholeSpeech delivers a whole spoken result in a format.
// wantFormat checks the format that the last result names; nil: none.
// formatObject is an audio format as JSON.
// deliverSpeech delivers one chunk of a spoken result.
func deliverSpeech(t *testing.T, h *harness, job core.JobID, attempt, chunk int, last bool) {
	t.Helper()
	header := wire.BinaryHeader{Kind: wire.KindTTS, ActiveJob: wire.ActiveJob{JobID: string(job), AttemptID: attempt}, Chunk: chunk, Last: last}
	h.registry.DeliverSpeech(&header, []byte("audio"))
}

// Speech follows its result, also when the result has to wait for its turn.
func TestSpeechFollowsItsResult(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start(func(in *wire.SessionStart) { in.TTS = true })
		jobs := []core.JobID{h.commit(s), h.commit(s)}
		spoken := func(job core.JobID, chunk int, last bool) {
			header := wire.BinaryHeader{Kind: wire.KindTTS, ActiveJob: wire.ActiveJob{JobID: string(job), AttemptID: 1}, Chunk: chunk, Last: last}
			h.registry.DeliverSpeech(&header, []byte("audio"))
		}
		done := func(job core.JobID) {
			h.dispatcher.mu.Lock()
			spec := h.dispatcher.placed[job]
			h.dispatcher.mu.Unlock()
			if err := h.registry.JobEnded(h.t.Context(), endedJob(job, spec, core.StateDone, "", `{"tts":true,"text_tgt":"x"}`), time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		done(jobs[1])
		spoken(jobs[1], 0, false)
		spoken(jobs[1], 1, true)
		if len(conn.received("binary")) != 0 {
			t.Error("speech was sent before its result")
		}
		done(jobs[0])
		spoken(jobs[0], 0, true)
		var got []string
		for _, m := range conn.received("result", "binary") {
			got = append(got, m["type"].(string))
		}
		if diff := cmp.Diff([]string{"result", "result", "binary", "binary", "binary"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if m := conn.last(t, "result"); m["tts"] != "follows" {
			t.Errorf("result: %v", m)
		}
		s.End()
		if held := h.registry.AudioBuffer().Held(); held != 0 {
			t.Errorf("%d bytes are held", held)
		}
	})
}

// A result names the format of its speech: as its node declared it, or as speech that arrived before the result says.
// When speech was refused, its result says that it is lost, or the client is warned; the session does not wait for it.
// Speech of an attempt whose result does not stand is dropped.
func TestSpeechOfAnotherAttemptIsDropped(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start(func(in *wire.SessionStart) { in.TTS = true })
		job := h.commit(s)
		deliverSpeech(t, h, job, 1, 0, true) // PUT, before the result
		h.completeAttempt(job, 2, `{"text_tgt":"x"}`)
		if m := conn.last(t, "result"); m["tts"] != "none" {
			t.Errorf("result: %v", m)
		}
		if got := conn.received("binary"); len(got) != 0 {
			t.Errorf("%d frames of speech of attempt 1 follow the result of attempt 2, which has none", len(got))
		}
		job = h.commit(s)
		deliverSpeech(t, h, job, 1, 0, true)
		h.failJob(job, core.ReasonMaxRetry)
		if got := conn.received("binary"); len(got) != 0 {
			t.Errorf("%d frames of speech follow an error", len(got))
		}
	})
}

// Utterances whose speech was complete before their turn are not kept.
func TestUtteranceWithCompleteSpeechIsForgotten(t *testing.T) {
	run(t, func(h *harness) {
		s, _ := h.start(func(in *wire.SessionStart) { in.TTS = true })
		for range 20 {
			job := h.commit(s)
			deliverSpeech(t, h, job, 1, 0, true) // as an HTTP node does
			h.completeAttempt(job, 1, `{"text_tgt":"x","tts":true}`)
		}
		if n := s.UnfinishedUtterances(); n != 0 {
			t.Errorf("%d finished utterances are kept", n)
		}
	})
}

// Speech that its node promises and never sends takes no memory while the session continues.
func TestOverdueSpeechIsLost(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start(func(in *wire.SessionStart) { in.TTS = true })
		silent, slow := h.commit(s), h.commit(s)
		h.completeAttempt(silent, 1, `{"text_tgt":"x","tts":true}`)
		h.completeAttempt(slow, 1, `{"text_tgt":"x","tts":true}`)
		for chunk := range 8 { // chunks arrive, none of them the last
			time.Sleep(30 * time.Second)
			s.Keepalive()
			deliverSpeech(t, h, slow, 1, chunk, false)
		}
		synctest.Wait()
		if n := s.UnfinishedUtterances(); n != 1 {
			t.Errorf("%d utterances are kept for their speech, want 1: the one whose speech still arrives", n)
		}
		if m := conn.last(t, "warning"); m["code"] != "SPEECH_LOST" {
			t.Errorf("warning: %v", m)
		}
		for range 10 {
			time.Sleep(30 * time.Second)
			s.Keepalive()
		}
		if n := s.UnfinishedUtterances(); n != 0 {
			t.Errorf("%d utterances are kept for speech that ended in the middle", n)
		}
	})
}

// The end of a session waits for speech that was promised, for a limited time.
func TestEndWaitsForSpeech(t *testing.T) {
	for name, arrives := range map[string]bool{"it arrives": true, "it does not": false} {
		t.Run(name, func(t *testing.T) {
			run(t, func(h *harness) {
				s, conn := h.start(func(in *wire.SessionStart) { in.TTS = true })
				job := h.commit(s)
				s.End()
				h.completeAttempt(job, 1, `{"text_tgt":"x","tts":true}`)
				synctest.Wait()
				if got := conn.received("session_ended"); len(got) != 0 {
					t.Fatal("the session ended before its speech arrived")
				}
				want := 0
				if arrives {
					deliverSpeech(t, h, job, 1, 0, false)
					deliverSpeech(t, h, job, 1, 1, true)
					want = 2
				} else {
					time.Sleep(time.Minute)
				}
				synctest.Wait()
				conn.last(t, "session_ended")
				if got := conn.received("binary"); len(got) != want {
					t.Errorf("%d frames of speech, want %d", len(got), want)
				}
				if warned := len(conn.received("warning")) > 0; warned == arrives {
					t.Errorf("the client was warned of lost speech: %v", warned)
				}
				_, nextConn, err := h.resume(s, conn.resumeToken(t), 0)
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				nextConn.last(t, "session_ended")
				if again := nextConn.received("warning"); len(again) != 0 {
					t.Errorf("after a resume the client is warned again: %v", again)
				}
			})
		})
	}
}

// Speech with a gap is dropped, and the client is warned.
func TestSpeechWithAGapIsLost(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start(func(in *wire.SessionStart) { in.TTS = true })
		job := h.commit(s)
		h.completeAttempt(job, 1, `{"text_tgt":"x","tts":true}`)
		deliverSpeech(t, h, job, 1, 0, false)
		deliverSpeech(t, h, job, 1, 5, false)
		deliverSpeech(t, h, job, 1, 1, true)
		if got := conn.received("binary"); len(got) != 1 {
			t.Errorf("%d frames of speech", len(got))
		}
		if m := conn.last(t, "warning"); m["code"] != "SPEECH_LOST" {
			t.Errorf("warning: %v", m)
		}
		if s.UnfinishedUtterances() != 0 {
			t.Error("lost speech is awaited")
		}
	})
}

// Speech that a connection had not taken when it was lost is not kept, however it was lost.
func TestSpeechIsReleasedWithItsConnection(t *testing.T) {
	for name, end := range map[string]func(s *session.Connection){
		"lost":  func(*session.Connection) {},
		"ended": func(s *session.Connection) { s.End() },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(h *harness) {
				s, conn := h.start(func(in *wire.SessionStart) { in.TTS = true })
				conn.slow = true
				job := h.commit(s)
				h.completeAttempt(job, 1, `{"text_tgt":"x","tts":true}`)
				deliverSpeech(t, h, job, 1, 0, false)
				deliverSpeech(t, h, job, 1, 1, true)
				if h.registry.AudioBuffer().Held() == 0 {
					t.Fatal("the connection took the speech")
				}
				end(s)
				s.Detach()
				if held := h.registry.AudioBuffer().Held(); held != 0 {
					t.Errorf("%d bytes are held without a connection", held)
				}
			})
		})
	}
}

// Fields in a node's result cannot make a session wait for speech.
func TestResultFieldsOfANodeAreNotInterpreted(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start(func(in *wire.SessionStart) { in.TTS = true })
		job := h.commit(s)
		h.completeAttempt(job, 1, `{"text_tgt":"x","note":"\"tts\":\"follows\"","deep":{"tts":"follows"},"type":"result"}`)
		s.End()
		synctest.Wait()
		if m := conn.last(t, "result"); m["tts"] != "none" {
			t.Errorf("result: %v", m)
		}
		conn.last(t, "session_ended")
	})
}

// A result whose speech can no longer be delivered says so, at once and after a resume.
func TestResultReportsLostSpeech(t *testing.T) {
	t.Run("a gap before its turn", func(t *testing.T) {
		run(t, func(h *harness) {
			s, conn := h.start(func(in *wire.SessionStart) { in.TTS = true })
			first, second := h.commit(s), h.commit(s)
			deliverSpeech(t, h, second, 1, 0, false)
			deliverSpeech(t, h, second, 1, 2, true)
			h.completeAttempt(second, 1, `{"text_tgt":"x","tts":true}`)
			h.completeAttempt(first, 1, `{"text_tgt":"x"}`)
			synctest.Wait()
			if m := conn.last(t, "result"); m["tts"] != "lost" {
				t.Errorf("result: %v", m)
			}
		})
	})
	t.Run("after a resume", func(t *testing.T) {
		run(t, func(h *harness) {
			s, conn := h.start(func(in *wire.SessionStart) { in.TTS = true })
			job := h.commit(s)
			h.completeAttempt(job, 1, `{"text_tgt":"x","tts":true}`)
			deliverSpeech(t, h, job, 1, 0, false)
			synctest.Wait()
			if m := conn.last(t, "result"); m["tts"] != "follows" {
				t.Fatalf("result: %v", m)
			}
			s.Detach()
			_, nextConn, err := h.resume(s, conn.resumeToken(t), 0)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if m := nextConn.last(t, "result"); m["tts"] != "lost" {
				t.Errorf("result: %v", m)
			}
			deliverSpeech(t, h, job, 1, 1, true)
			if got := nextConn.received("binary"); len(got) != 0 {
				t.Errorf("%d frames of speech without its beginning", len(got))
			}
		})
	})
	t.Run("after a resume, before it began", func(t *testing.T) {
		run(t, func(h *harness) {
			s, conn := h.start(func(in *wire.SessionStart) { in.TTS = true })
			job := h.commit(s)
			h.completeAttempt(job, 1, `{"text_tgt":"x","tts":true}`)
			synctest.Wait()
			s.Detach()
			_, nextConn, err := h.resume(s, conn.resumeToken(t), 0)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if m := nextConn.last(t, "result"); m["tts"] != "follows" {
				t.Errorf("result: %v", m)
			}
			deliverSpeech(t, h, job, 1, 0, true)
			if got := nextConn.received("binary"); len(got) != 1 {
				t.Errorf("%d frames of speech", len(got))
			}
		})
	})
	t.Run("after a takeover", func(t *testing.T) {
		run(t, func(h *harness) {
			s, conn := h.start(func(in *wire.SessionStart) { in.TTS = true })
			h.completeAttempt(h.commit(s), 1, `{"text_tgt":"x","tts":true}`)
			synctest.Wait()
			h.replaceInstance()
			_, nextConn, err := h.resume(s, conn.resumeToken(t), 0)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if m := nextConn.last(t, "result"); m["tts"] != "lost" {
				t.Errorf("result: %v", m)
			}
		})
	})
}

// Speech reaches only the instance that gets the result. If the session is on another one, the result says that it is lost, unless
// the speech was uploaded there before.
func TestSpeechOfAResultOnAnotherInstance(t *testing.T) {
	for name, c := range map[string]struct {
		uploaded bool
		want     string
	}{"it goes to the other instance": {false, "lost"}, "it was uploaded": {true, "follows"}} {
		t.Run(name, func(t *testing.T) {
			run(t, func(h *harness) {
				other := h.newRegistry(h.store, h.dispatcher) // the node is connected to this instance
				defer other.Close()
				s, conn := h.start(func(in *wire.SessionStart) { in.TTS = true })
				job := h.commit(s)
				if c.uploaded {
					deliverSpeech(t, h, job, 1, 0, true)
				}
				here := h.registry
				h.registry = other
				h.completeAttempt(job, 1, `{"text_tgt":"x","tts":true}`)
				h.registry = here
				time.Sleep(10 * time.Second) // no message announces the result: the session finds it in its outbox
				synctest.Wait()
				if m := conn.last(t, "result"); m["tts"] != c.want {
					t.Errorf("result: %v, want the speech %s", m, c.want)
				}
				s.End()
				synctest.Wait()
				conn.last(t, "session_ended") // it does not wait for speech that does not come
			})
		})
	}
}

func TestSpeechLostWithItsConnectionIsNotAwaited(t *testing.T) {
	for name, left := range map[string]bool{
		"a chunk arrived before the connection was lost":     true,
		"a chunk arrived before the connection was replaced": false,
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(h *harness) {
				s, conn := h.start(func(in *wire.SessionStart) { in.TTS = true })
				job := h.commit(s)
				h.completeAttempt(job, 1, `{"text_tgt":"a","tts":true}`)
				deliverSpeech(t, h, job, 1, 0, false)
				if left {
					s.Detach()
				}
				resumed, nextConn, err := h.resume(s, conn.resumeToken(t), 0)
				if err != nil {
					t.Fatal(err)
				}
				deliverSpeech(t, h, job, 1, 1, true)
				if n := s.UnfinishedUtterances(); n != 0 || len(nextConn.received("binary")) != 0 {
					t.Errorf("%d utterances are kept for their speech; %d chunks of it were sent", n, len(nextConn.received("binary")))
				}
				synctest.Wait()
				if m := nextConn.last(t, "result"); m["tts"] != "lost" {
					t.Errorf("result: %v", m["tts"])
				}
				resumed.End()
				synctest.Wait()
				if n := len(nextConn.received("session_ended")); n != 1 {
					t.Error("the end waits for lost speech")
				}
			})
		})
	}
}
