package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/wire"
)

func speech(t *testing.T, w *world, job core.JobID, attempt, chunk int, last bool) {
	t.Helper()
	h := wire.BinaryHeader{Kind: wire.KindTTS, ActiveJob: wire.ActiveJob{JobID: string(job), AttemptID: attempt}, Chunk: chunk, Last: last}
	w.rooms.DeliverSpeech(&h, []byte("sound"))
}

func (w *world) doneAs(job core.JobID, attempt int, result string) {
	w.jobs.mu.Lock()
	spec := w.jobs.placed[job]
	w.jobs.mu.Unlock()
	j := ended(job, spec, core.StateDone, "", result)
	j.Attempt = attempt
	if err := w.rooms.JobEnded(w.t.Context(), j); err != nil {
		w.t.Fatal(err)
	}
}

// TestSpeechOfAnAttemptThatWasGivenUp: speech of an attempt that was not the one whose result stands.
func TestSpeechOfAnAttemptThatWasGivenUp(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start(func(in *wire.SessionStart) { in.TTS = true })
		job := w.utter(s)
		speech(t, w, job, 1, 0, true) // PUT, before the result
		w.doneAs(job, 2, `{"text_tgt":"x"}`)
		if m := link.last(t, "result"); m["tts"] != "none" {
			t.Errorf("%v", m)
		}
		if got := link.heard("binary"); len(got) != 0 {
			t.Errorf("%d frames of speech of attempt 1 follow the result of attempt 2, which has none", len(got))
		}
		job = w.utter(s)
		speech(t, w, job, 1, 0, true)
		w.fail(job, core.ReasonMaxRetry)
		if got := link.heard("binary"); len(got) != 0 {
			t.Errorf("%d frames of speech follow an error", len(got))
		}
	})
}

// TestUtterancesThatWereSpokenBeforeTheirTurn: utterances whose speech was complete before their turn.
func TestUtterancesThatWereSpokenBeforeTheirTurn(t *testing.T) {
	play(t, func(w *world) {
		s, _ := w.start(func(in *wire.SessionStart) { in.TTS = true })
		for range 20 {
			job := w.utter(s)
			speech(t, w, job, 1, 0, true) // as an HTTP node does
			w.doneAs(job, 1, `{"text_tgt":"x","tts":true}`)
		}
		if n := s.Spoken(); n != 0 {
			t.Errorf("%d utterances of which nothing more can come are kept", n)
		}
	})
}

// TestPromisedSpeechIsNotWaitedForForEver: while a session goes on, speech that its node never sends takes no memory.
func TestPromisedSpeechIsNotWaitedForForEver(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start(func(in *wire.SessionStart) { in.TTS = true })
		silent, slow := w.utter(s), w.utter(s)
		w.doneAs(silent, 1, `{"text_tgt":"x","tts":true}`)
		w.doneAs(slow, 1, `{"text_tgt":"x","tts":true}`)
		for chunk := range 8 { // pieces come, none of them the last
			time.Sleep(30 * time.Second)
			s.Keepalive()
			speech(t, w, slow, 1, chunk, false)
		}
		synctest.Wait()
		if n := s.Spoken(); n != 1 {
			t.Errorf("%d utterances are kept for their speech, want 1: that whose speech still comes", n)
		}
		if m := link.last(t, "warning"); m["code"] != "SPEECH_LOST" {
			t.Errorf("%v", m)
		}
		for range 10 {
			time.Sleep(30 * time.Second)
			s.Keepalive()
		}
		if n := s.Spoken(); n != 0 {
			t.Errorf("%d utterances are kept for speech that ended in the middle", n)
		}
	})
}

// TestSpeechIsWaitedFor: whoever ends a session hears what was promised, and is not kept waiting for ever.
func TestSpeechIsWaitedFor(t *testing.T) {
	for name, comes := range map[string]bool{"it comes": true, "it does not": false} {
		t.Run(name, func(t *testing.T) {
			play(t, func(w *world) {
				s, link := w.start(func(in *wire.SessionStart) { in.TTS = true })
				job := w.utter(s)
				s.End()
				w.doneAs(job, 1, `{"text_tgt":"x","tts":true}`)
				synctest.Wait()
				if got := link.heard("session_ended"); len(got) != 0 {
					t.Fatal("the session ended before its speech came")
				}
				want := 0
				if comes {
					speech(t, w, job, 1, 0, false)
					speech(t, w, job, 1, 1, true)
					want = 2
				} else {
					time.Sleep(time.Minute)
				}
				synctest.Wait()
				link.last(t, "session_ended")
				if got := link.heard("binary"); len(got) != want {
					t.Errorf("%d frames of speech, want %d", len(got), want)
				}
			})
		})
	}
}

// TestAGapInSpeech: the rest would be no speech, and whoever listens is told.
func TestAGapInSpeech(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start(func(in *wire.SessionStart) { in.TTS = true })
		job := w.utter(s)
		w.doneAs(job, 1, `{"text_tgt":"x","tts":true}`)
		speech(t, w, job, 1, 0, false)
		speech(t, w, job, 1, 5, false)
		speech(t, w, job, 1, 1, true)
		if got := link.heard("binary"); len(got) != 1 {
			t.Errorf("%d frames of speech", len(got))
		}
		if m := link.last(t, "warning"); m["code"] != "SPEECH_LOST" {
			t.Errorf("%v", m)
		}
		if s.Spoken() != 0 {
			t.Error("it is waited for")
		}
	})
}

// TestSpeechThatIsNotTaken: what a connection had not taken when it was lost is not kept, however it was lost.
func TestSpeechThatIsNotTaken(t *testing.T) {
	for name, end := range map[string]func(s *session.Connection){
		"cut":   func(*session.Connection) {},
		"ended": func(s *session.Connection) { s.End() },
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(w *world) {
				s, link := w.start(func(in *wire.SessionStart) { in.TTS = true })
				link.slow = true
				job := w.utter(s)
				w.doneAs(job, 1, `{"text_tgt":"x","tts":true}`)
				speech(t, w, job, 1, 0, false)
				speech(t, w, job, 1, 1, true)
				if w.rooms.Audio().Held() == 0 {
					t.Fatal("it was taken")
				}
				end(s)
				s.Detach()
				if held := w.rooms.Audio().Held(); held != 0 {
					t.Errorf("%d bytes are held for nobody", held)
				}
			})
		})
	}
}

// A node's own words cannot make a session wait for speech: what the scheduler must know is not looked for in them.
func TestNodeTextThatLooksLikeOurs(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start(func(in *wire.SessionStart) { in.TTS = true })
		job := w.utter(s)
		w.doneAs(job, 1, `{"text_tgt":"x","note":"\"tts\":\"follows\"","deep":{"tts":"follows"},"type":"result"}`)
		s.End()
		synctest.Wait()
		if m := link.last(t, "result"); m["tts"] != "none" {
			t.Errorf("%v", m)
		}
		link.last(t, "session_ended")
	})
}

// A result whose speech cannot come any more says so, live and after a resume.
func TestResultSaysThatItsSpeechIsLost(t *testing.T) {
	t.Run("a gap before its turn", func(t *testing.T) {
		play(t, func(w *world) {
			s, link := w.start(func(in *wire.SessionStart) { in.TTS = true })
			first, second := w.utter(s), w.utter(s)
			speech(t, w, second, 1, 0, false)
			speech(t, w, second, 1, 2, true)
			w.doneAs(second, 1, `{"text_tgt":"x","tts":true}`)
			w.doneAs(first, 1, `{"text_tgt":"x"}`)
			synctest.Wait()
			if m := link.last(t, "result"); m["tts"] != "lost" {
				t.Errorf("%v", m)
			}
		})
	})
	t.Run("after a resume", func(t *testing.T) {
		play(t, func(w *world) {
			s, link := w.start(func(in *wire.SessionStart) { in.TTS = true })
			job := w.utter(s)
			w.doneAs(job, 1, `{"text_tgt":"x","tts":true}`)
			speech(t, w, job, 1, 0, false)
			synctest.Wait()
			if m := link.last(t, "result"); m["tts"] != "follows" {
				t.Fatalf("%v", m)
			}
			s.Detach()
			_, next, err := w.resume(s, link.token(t), 0)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if m := next.last(t, "result"); m["tts"] != "lost" {
				t.Errorf("%v", m)
			}
			speech(t, w, job, 1, 1, true)
			if got := next.heard("binary"); len(got) != 0 {
				t.Errorf("%d frames of speech without its beginning", len(got))
			}
		})
	})
	t.Run("after a resume, before it began", func(t *testing.T) {
		play(t, func(w *world) {
			s, link := w.start(func(in *wire.SessionStart) { in.TTS = true })
			job := w.utter(s)
			w.doneAs(job, 1, `{"text_tgt":"x","tts":true}`)
			synctest.Wait()
			s.Detach()
			_, next, err := w.resume(s, link.token(t), 0)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if m := next.last(t, "result"); m["tts"] != "follows" {
				t.Errorf("%v", m)
			}
			speech(t, w, job, 1, 0, true)
			if got := next.heard("binary"); len(got) != 1 {
				t.Errorf("%d frames of speech", len(got))
			}
		})
	})
	t.Run("after a takeover", func(t *testing.T) {
		play(t, func(w *world) {
			s, link := w.start(func(in *wire.SessionStart) { in.TTS = true })
			w.doneAs(w.utter(s), 1, `{"text_tgt":"x","tts":true}`)
			synctest.Wait()
			w.move()
			_, next, err := w.resume(s, link.token(t), 0)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if m := next.last(t, "result"); m["tts"] != "lost" {
				t.Errorf("%v", m)
			}
		})
	})
}

// Nobody waits for speech that was lost with a connection.
func TestSpeechLostWithItsConnectionIsNotWaitedFor(t *testing.T) {
	for name, how := range map[string]struct{ before, left bool }{
		"a piece came before the cut":                       {true, true},
		"the first came after it":                           {false, true},
		"a piece came, and another connection replaced its": {true, false},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(w *world) {
				s, link := w.start(func(in *wire.SessionStart) { in.TTS = true })
				job := w.utter(s)
				w.doneAs(job, 1, `{"text_tgt":"a","tts":true}`)
				if how.before {
					speech(t, w, job, 1, 0, false)
				}
				if how.left {
					s.Detach()
				}
				if !how.before {
					speech(t, w, job, 1, 0, false)
				}
				again, next, err := w.resume(s, link.token(t), 0)
				if err != nil {
					t.Fatal(err)
				}
				speech(t, w, job, 1, 1, true)
				if n := s.Spoken(); n != 0 || len(next.heard("binary")) != 0 {
					t.Errorf("%d utterances are kept for their speech; of it came %d pieces", n, len(next.heard("binary")))
				}
				synctest.Wait()
				if m := next.last(t, "result"); m["tts"] != "lost" {
					t.Errorf("%v", m["tts"])
				}
				again.End()
				synctest.Wait()
				if n := len(next.heard("session_ended")); n != 1 {
					t.Error("the end waits for speech that does not come")
				}
			})
		})
	}
}
