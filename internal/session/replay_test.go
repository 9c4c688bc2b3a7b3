package session_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/wire"
)

// The result arrives while the audio is sent again.
func TestJobEndsDuringReplay(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		token := conn.resumeToken(t)
		job := h.commit(s)
		h.replaceInstance()
		resumed, nextConn, err := h.resume(s, token, 0)
		if err != nil {
			t.Fatal(err)
		}
		h.stream(resumed, tone(100))
		h.complete(job, "a") // its node had the audio
		h.stream(resumed, tone(200))
		synctest.Wait()
		wantTerminals(t, nextConn, "0 a")
		if held := h.registry.AudioBuffer().Held(); held != 0 {
			t.Errorf("%d bytes are held for a job that has ended", held)
		}
		resumed.End()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if held := h.registry.AudioBuffer().Held(); held != 0 || h.registry.Len() != 0 {
			t.Errorf("%d bytes are held although there is no session (%d)", held, h.registry.Len())
		}
	})
}

// Audio that was sent again in part is released when the session expires.
func TestIncompleteReplayIsReleased(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		token := conn.resumeToken(t)
		h.commit(s)
		h.replaceInstance()
		resumed, _, err := h.resume(s, token, 0)
		if err != nil {
			t.Fatal(err)
		}
		h.stream(resumed, tone(200))
		resumed.Detach()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if held := h.registry.AudioBuffer().Held(); held != 0 || h.registry.Len() != 0 {
			t.Errorf("%d bytes are held although there is no session (%d)", held, h.registry.Len())
		}
	})
}

// An utterance_start that is sent again with the audio begins no other utterance.
func TestReplayedUtteranceStartBeginsNoOther(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		utter := func(s *session.Connection, request core.RequestID) {
			t.Helper()
			if e := s.Begin("", "", request); e != nil {
				t.Fatal(e)
			}
			h.stream(s, tone(300))
			if e := s.Audio(session.AudioFrame{Final: true}); e != nil {
				t.Fatal(e)
			}
			synctest.Wait()
		}
		utter(s, "r0")
		utter(s, "r1")
		h.replaceInstance()
		resumed, nextConn, err := h.resume(s, conn.resumeToken(t), 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, request := range []core.RequestID{"r0", "r1", "r2"} {
			utter(resumed, request)
		}
		var got []any
		for _, m := range nextConn.received("utterance_committed") {
			got = append(got, m["request_id"])
		}
		if diff := cmp.Diff([]any{"r0", "r1", "r2"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		jobs := h.dispatcher.jobs()
		if len(jobs) != 3 {
			t.Errorf("%d jobs", len(jobs))
		}
		for _, job := range jobs {
			if clip := h.registry.AudioBuffer().Clip(job); clip == nil || len(clip.Data) != len(tone(300)) {
				t.Errorf("the audio of %s is not held", job)
			}
		}
	})
}

// An utterance whose audio is needed again can be cancelled.
func TestCancelOfAnUtteranceThatNeedsItsAudio(t *testing.T) {
	run(t, func(h *harness) {
		s, token := startAndCrash(h)
		resumed, nextConn, err := h.resume(s, token, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range nextConn.received("utterance_committed") {
			if e := resumed.Cancel("", h.jobID(m)); e != nil {
				t.Fatal(e)
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		wantTerminals(t, nextConn, "0 CANCELLED", "1 CANCELLED")
	})
}

// The message that a job waits for its audio is lost: the instance that has the audio resumes the job by itself.
func TestJobIsResumedWhenTheRequestForAudioWasLost(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		token := conn.resumeToken(t)
		job := h.commit(s)
		h.replaceInstance() // the instance that dispatched it is gone
		resumed, _, err := h.resume(s, token, 0)
		if err != nil {
			t.Fatal(err)
		}
		for seq := int64(1); seq <= 4; seq++ {
			frame := session.AudioFrame{Seq: seq, Data: tone(100)}
			if seq == 4 {
				frame = session.AudioFrame{Seq: seq, Final: true}
			}
			_ = resumed.Audio(frame)
		}
		synctest.Wait()
		if h.registry.AudioBuffer().Clip(job) == nil || h.resumedJobs() != 1 {
			t.Fatal("the audio is not held here")
		}
		// Now its node fails, an instance without the audio suspends the job, and its message to this instance is lost.
		time.Sleep(time.Minute)
		synctest.Wait()
		if h.resumedJobs() < 2 {
			t.Errorf("job %s, whose audio is here, was not resumed within a minute; it would end with AUDIO_LOST", job)
		}
	})
}

func TestResumeReportsWhichAudioIsNeeded(t *testing.T) {
	run(t, func(h *harness) {
		s, token := startAndCrash(h)
		_, nextConn, err := h.resume(s, token, 0)
		if err != nil {
			t.Fatal(err)
		}
		m := nextConn.last(t, "session_resumed")
		want := []any{
			map[string]any{"utterance_index": 0.0, "first_seq": 1.0, "last_seq": 3.0},
			map[string]any{"utterance_index": 1.0, "first_seq": 5.0, "last_seq": 7.0},
		}
		if diff := cmp.Diff(want, m["audio_needed"]); diff != "" || m["next_audio_seq"] != 1.0 {
			t.Errorf("%v (-want +got):\n%s", m["next_audio_seq"], diff)
		}
	})
}

// A client that no longer has the audio of an utterance reports that: the utterance ends at once, and the replay continues after it.
func TestAudioGoneEndsTheUtterance(t *testing.T) {
	for name, gone := range map[string][]int64{"the first": {0}, "the second": {1}, "both": {1, 0}} {
		t.Run(name, func(t *testing.T) {
			run(t, func(h *harness) {
				s, token := startAndCrash(h)
				resumed, nextConn, err := h.resume(s, token, 0)
				if err != nil {
					t.Fatal(err)
				}
				lost := map[int64]bool{}
				for _, index := range gone {
					lost[index] = true
					if e := resumed.AudioGone(index); e != nil {
						t.Fatal(e)
					}
				}
				send := func(from, to int64) {
					for seq := from; seq <= to; seq++ {
						h.send(resumed, session.AudioFrame{Seq: seq, Data: tone(100), Final: false})
					}
				}
				if !lost[0] {
					send(1, 3)
				}
				h.send(resumed, session.AudioFrame{Seq: 4, Final: true})
				if !lost[1] {
					send(5, 7)
				}
				h.send(resumed, session.AudioFrame{Seq: 8, Final: true})
				send(9, 10)
				h.send(resumed, session.AudioFrame{Seq: 11, Final: true})
				synctest.Wait()
				for _, id := range h.dispatcher.jobs() {
					h.complete(id, "ok")
				}
				synctest.Wait()
				want := []string{"0 ok", "1 ok", "2 ok"}
				for index := range lost {
					want[index] = want[index][:2] + "AUDIO_LOST"
				}
				wantTerminals(t, nextConn, want...)
				if e := resumed.AudioGone(7); e == nil || e.Code != wire.NotFound {
					t.Errorf("an unknown utterance: %v", e)
				}
			})
		})
	}
}

// Audio that the instance has is not lost because the client no longer has it.
func TestAudioGoneOfAudioThatIsHere(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		job := h.commit(s)
		if e := s.AudioGone(0); e != nil {
			t.Fatal(e)
		}
		synctest.Wait()
		h.complete(job, "a")
		wantTerminals(t, conn, "0 a")
	})
}

// An utterance whose audio does not arrive ends within the result timeout, counted from the resume.
func TestUtteranceWithoutAudioEndsWithinResultTimeout(t *testing.T) {
	run(t, func(h *harness) {
		s, token := startAndCrash(h)
		time.Sleep(30 * time.Second) // no client is connected, so this time does not count
		_, nextConn, err := h.resume(s, token, 0)
		if err != nil {
			t.Fatal(err)
		}
		within := h.cfg.Wait + h.cfg.Job + 3*time.Second
		time.Sleep(h.cfg.Wait + h.cfg.Job - time.Second)
		synctest.Wait()
		wantTerminals(t, nextConn)
		time.Sleep(within - (h.cfg.Wait + h.cfg.Job - time.Second))
		synctest.Wait()
		wantTerminals(t, nextConn, "0 AUDIO_LOST", "1 AUDIO_LOST")
	})
}

// A client whose frames have no numbers learns where to continue when the replay reaches audio that the client no longer has.
func TestAudioGoneIsAcknowledgedWhenReached(t *testing.T) {
	run(t, func(h *harness) {
		s, token := startAndCrash(h)
		resumed, nextConn, err := h.resume(s, token, 0)
		if err != nil {
			t.Fatal(err)
		}
		if e := resumed.AudioGone(1); e != nil {
			t.Fatal(e)
		}
		h.stream(resumed, tone(300))
		h.send(resumed, session.AudioFrame{Final: true})
		if m := nextConn.last(t, "audio_ack"); m["seq"] != 8.0 {
			t.Errorf("audio_ack: %v", m)
		}
	})
}

// A client that has the terminal message of an utterance is not asked for its audio, also if the store has lost the message.
func TestAudioOfAnAcknowledgedUtteranceIsNotNeeded(t *testing.T) {
	run(t, func(h *harness) {
		s, token := startAndCrash(h)
		_, nextConn, err := h.resume(s, token, 1) // the client has the first result; the store has lost the append
		if err != nil {
			t.Fatal(err)
		}
		m := nextConn.last(t, "session_resumed")
		want := []any{map[string]any{"utterance_index": 1.0, "first_seq": 5.0, "last_seq": 7.0}}
		if diff := cmp.Diff(want, m["audio_needed"]); diff != "" || m["next_audio_seq"].(float64) < 4 {
			t.Errorf("next_audio_seq %v (-want +got):\n%s", m["next_audio_seq"], diff)
		}
	})
}

// Frames of an utterance that has ended need not be sent again.
func TestNumberedFramesContinueAfterAudioLost(t *testing.T) {
	run(t, func(h *harness) {
		s, token := startAndCrash(h)
		resumed, nextConn, err := h.resume(s, token, 0)
		if err != nil {
			t.Fatal(err)
		}
		if e := resumed.Audio(session.AudioFrame{Seq: 9, Data: tone(100)}); e == nil || e.Field != "seq" {
			t.Errorf("audio that is needed was left out: %v", e)
		}
		time.Sleep(h.cfg.Wait + h.cfg.Job + 3*time.Second)
		synctest.Wait()
		wantTerminals(t, nextConn, "0 AUDIO_LOST", "1 AUDIO_LOST")
		h.send(resumed, session.AudioFrame{Seq: 9, Data: tone(100)})
		h.send(resumed, session.AudioFrame{Seq: 10, Data: tone(100)})
		h.send(resumed, session.AudioFrame{Seq: 11, Final: true})
		synctest.Wait()
		h.complete(h.dispatcher.jobs()[0], "c")
		synctest.Wait()
		wantTerminals(t, nextConn, "0 AUDIO_LOST", "1 AUDIO_LOST", "2 c")
		if held := h.registry.AudioBuffer().Held(); held != 0 {
			t.Errorf("%d bytes are held", held)
		}
		if m := nextConn.last(t, "utterance_committed"); m["first_seq"] != 9.0 || m["last_seq"] != 10.0 {
			t.Errorf("utterance_committed: %v", m)
		}
	})
}

// When the result of an utterance arrives while its audio is sent again, the client may leave the rest out.
func TestClientMaySkipAudioOfAnUtteranceThatEnded(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		job := h.commit(s)    // frames 1 to 3, and 4 that ends it
		second := h.commit(s) // 5 to 7, 8
		h.replaceInstance()
		resumed, nextConn, err := h.resume(s, conn.resumeToken(t), 0)
		if err != nil {
			t.Fatal(err)
		}
		h.send(resumed, session.AudioFrame{Seq: 1, Data: tone(100)})
		h.complete(job, "a") // its node had the audio
		synctest.Wait()
		if e := resumed.Audio(session.AudioFrame{Seq: 6, Data: tone(100)}); e == nil || e.Field != "seq" {
			t.Errorf("audio that is needed was left out: %v", e)
		}
		for seq := int64(5); seq <= 7; seq++ {
			h.send(resumed, session.AudioFrame{Seq: seq, Data: tone(100)})
		}
		synctest.Wait()
		if clip := h.registry.AudioBuffer().Clip(second); clip == nil || len(clip.Data) != len(tone(300)) {
			t.Errorf("the audio of the second is not complete: %v", clip)
		}
		h.complete(second, "b")
		wantTerminals(t, nextConn, "0 a", "1 b")
		if held := h.registry.AudioBuffer().Held(); held != 0 {
			t.Errorf("%d bytes are held", held)
		}
	})
}

// An utterance_start after audio that was left out opens an utterance; the same before audio that is sent again is repeated and opens none.
func TestUtteranceStartAfterAudioThatWasLeftOut(t *testing.T) {
	for name, c := range map[string]struct {
		next int64 // the frame after the utterance_start
		want string
	}{"the audio is left out": {5, "u-3 my-request es"}, "the audio is sent again": {1, ""}} {
		t.Run(name, func(t *testing.T) {
			run(t, func(h *harness) {
				s, conn := h.start()
				job := h.commit(s) // frames 1 to 3, and 4 that ends it
				h.replaceInstance()
				resumed, next, err := h.resume(s, conn.resumeToken(t), 0)
				if err != nil {
					t.Fatal(err)
				}
				h.complete(job, "a") // its node had the audio
				synctest.Wait()
				if e := resumed.Begin("u-3", "es", "my-request"); e != nil {
					t.Fatal(e)
				}
				h.send(resumed, session.AudioFrame{Seq: c.next, Data: tone(100)})
				h.send(resumed, session.AudioFrame{Seq: c.next + 1, Final: true})
				synctest.Wait()
				got := ""
				for _, m := range next.received("utterance_committed") {
					if m["utterance_index"] == 1.0 {
						got = fmt.Sprint(m["utterance_id"], " ", m["request_id"], " ", m["src_lang"])
					}
				}
				if got != c.want {
					t.Errorf("committed %q, want %q", got, c.want)
				}
			})
		})
	}
}

// Silence that was dropped is not needed again on another instance, also while nothing else is saved.
func TestSilenceIsNotNeededAgain(t *testing.T) {
	for name, change := range map[string]func(*session.Connection) *wire.Error{
		"from the start":       nil,
		"of a named utterance": func(s *session.Connection) *wire.Error { return s.Begin("u-1", "", "") },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(h *harness) {
				s, conn := h.start()
				if change != nil {
					if e := change(s); e != nil {
						t.Fatal(e)
					}
				}
				const frames = 1200 // two minutes
				for seq := int64(1); seq <= frames; seq++ {
					h.send(s, session.AudioFrame{Seq: seq, Data: make([]byte, len(tone(100)))})
					time.Sleep(100 * time.Millisecond)
				}
				h.replaceInstance()
				_, next, err := h.resume(s, conn.resumeToken(t), 0)
				if err != nil {
					t.Fatal(err)
				}
				needed := frames + 1 - int64(next.last(t, "session_resumed")["next_audio_seq"].(float64))
				if change == nil && needed > 100 {
					t.Errorf("%d frames of silence are needed again, want at most those of 10 seconds", needed)
				}
				if change != nil && needed != frames {
					t.Errorf("%d frames are needed again, want all: the client repeats its utterance_start only with the first", needed)
				}
			})
		})
	}
}
