package session_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/wire"
)

func TestUtteranceRateIsBounded(t *testing.T) {
	t.Run("opened by audio", func(t *testing.T) { testUtteranceRate(t, func(*session.Connection, int) {}) })
	t.Run("opened by utterance_start", func(t *testing.T) {
		testUtteranceRate(t, func(s *session.Connection, i int) { _ = s.Begin(fmt.Sprint("u-", i), "", "") }) // some of these are too many
	})
}

func testUtteranceRate(t *testing.T, open func(s *session.Connection, i int)) {
	run(t, func(h *harness) {
		h.cfg.MaxUnanswered = 1000
		h.cfg.Ahead = time.Hour
		h.restartWith(h.store, h.dispatcher)
		s, _ := h.start()
		begun := 0
		var last *wire.Error
		for i := range 2 * 60 * 100 { // two minutes, a hundred a second
			open(s, i)
			if e := s.Audio(session.AudioFrame{Data: tone(1), Final: true}); e == nil {
				begun++
				if jobs := h.dispatcher.jobs(); len(jobs) > 0 {
					h.complete(jobs[len(jobs)-1], "x")
				}
			} else {
				last = e
			}
			time.Sleep(10 * time.Millisecond)
		}
		if begun > 2*60*6+1000 || last == nil || last.Code != wire.RateLimited || last.RetryAfterMS == 0 {
			t.Errorf("%d utterances in two minutes; refused with %v", begun, last)
		}
	})
}

// Audio that was refused because it arrived too fast is accepted when it is sent again after the time that was named.
func TestAudioRefusedAsTooFastIsAcceptedLater(t *testing.T) {
	run(t, func(h *harness) {
		s, _ := h.start()
		for try := range 100 {
			e := s.Audio(session.AudioFrame{Data: tone(1000)})
			if e == nil {
				continue
			}
			if e.Code != wire.RateLimited || e.RetryAfterMS == 0 {
				t.Fatal(e)
			}
			for range 20 {
				_ = s.Audio(session.AudioFrame{Data: tone(1000)}) // a client that does not wait does not have to wait longer
			}
			time.Sleep(time.Duration(e.RetryAfterMS) * time.Millisecond)
			if e := s.Audio(session.AudioFrame{Data: tone(1000)}); e != nil {
				t.Fatalf("after %d: %v", try, e)
			}
			return
		}
		t.Error("a hundred seconds of audio at once were accepted")
	})
}

// A session_update of the mode applies to the open utterance, in both directions.
func TestModeChangesWhileAnUtteranceIsOpen(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		h.stream(s, tone(300))
		conn.setStalled(true)
		time.Sleep(time.Second) // a ping is under way
		synctest.Wait()
		if e := s.Update("", nil, &wire.SessionUpdate{Segmentation: &wire.SessionSegmentation{Mode: wire.SegmentManual}}); e != nil {
			t.Fatal(e)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if code, _ := conn.closed(); code != 0 {
			t.Errorf("closed with %d", code)
		}
		conn.setStalled(false)
		if e := s.Update("", nil, &wire.SessionUpdate{Segmentation: &wire.SessionSegmentation{Mode: wire.SegmentAuto}}); e != nil {
			t.Fatal(e)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		wantCommitted(t, conn, "pause")
	})
}

// A request that is repeated within a session makes no second job.
func TestRepeatedRequestMakesNoSecondJob(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		for range 3 {
			if e := s.Audio(session.AudioFrame{Data: tone(100), Request: "req-1", Final: true}); e != nil {
				t.Fatal(e)
			}
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		if n := len(h.dispatcher.jobs()); n != 1 {
			t.Errorf("%d jobs, want 1", n)
		}
		if n := len(conn.received("warning")); n != 2 {
			t.Errorf("%d warnings, want 2", n)
		}
		h.complete(h.dispatcher.jobs()[0], "a")
		wantTerminals(t, conn, "0 a")
		if held := h.registry.AudioBuffer().Held(); held != 0 {
			t.Errorf("%d bytes are held", held)
		}
	})
}

// An utterance over the limit of unanswered ones ends with an error of its own, in its turn.
func TestUtteranceOverTheLimitEndsInItsTurn(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		var jobs []core.JobID
		for range 4 {
			jobs = append(jobs, h.commit(s))
		}
		if e := s.Audio(session.AudioFrame{Data: tone(100), Final: true}); e != nil {
			t.Fatal(e)
		}
		synctest.Wait()
		for i, job := range jobs {
			h.complete(job, string(rune('a'+i)))
		}
		wantTerminals(t, conn, "0 a", "1 b", "2 c", "3 d", "4 RATE_LIMITED")
	})
}

func TestAudioAheadOfRealTimeIsRefused(t *testing.T) {
	run(t, func(h *harness) {
		s, _ := h.start()
		var e *wire.Error
		for range 100 {
			if e = s.Audio(session.AudioFrame{Data: tone(100)}); e != nil {
				break
			}
		}
		if e == nil || e.Code != wire.RateLimited {
			t.Errorf("ten seconds of audio at once: %v", e)
		}
	})
}

// Time without audio does not allow audio to run further ahead.
func TestQuietTimeEarnsNoAudioAhead(t *testing.T) {
	run(t, func(h *harness) {
		s, _ := h.start()
		for range 36 {
			time.Sleep(100 * time.Second)
			s.Keepalive()
		}
		var total time.Duration
		for total < time.Minute {
			if e := s.Audio(session.AudioFrame{Data: tone(1000)}); e != nil {
				return
			}
			total += time.Second
		}
		t.Errorf("%s of audio were accepted at once, and the limit is %s ahead", total, h.cfg.Ahead)
	})
}

// Large Opus packets count by their size and not by the duration that they declare.
func TestPaceOfOpusCountsBytes(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start(func(in *wire.SessionStart) { in.Audio.Encoding = "opus" })
		for i := range 200 { // 4 s of frames of 20 ms each at once, many times over
			if e := s.Audio(session.AudioFrame{Data: make([]byte, 5000), Final: i == 199}); e != nil {
				return
			}
		}
		synctest.Wait()
		t.Errorf("a megabyte of opus was accepted at once, and lasts %v ms", conn.last(t, "utterance_committed")["duration_ms"])
	})
}

// The memory of utterances that were cancelled while open is bounded.
func TestClosedUtterancesAreBounded(t *testing.T) {
	run(t, func(h *harness) {
		s, _ := h.start()
		for range 10_000 {
			_ = s.Begin("u", "", "")
			_ = s.Cancel("u", "")
		}
		if n := s.ClosedUtterances(); n > 64 {
			t.Errorf("%d names are kept", n)
		}
	})
}

func TestManyUtterancesAtOnceAreRefused(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		for i := range 20_000 {
			if e := s.Audio(session.AudioFrame{Data: tone(1)[:2+2*(i%2)], Final: true}); e != nil {
				t.Logf("stopped at %d: %v", i, e)
				return
			}
		}
		synctest.Wait()
		t.Errorf("%d utterances at once were committed; %d jobs, %d errors", len(conn.received("utterance_committed")), len(h.dispatcher.jobs()), len(conn.received("error")))
	})
}

// Audio frames that are sent again are recognised by their numbers. Over the same connection nothing is sent again: a client that counts anew
// for each utterance is told.
func TestRepeatedFramesAreRecognised(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		for round := range 2 {
			for seq := int64(1); seq <= 4; seq++ {
				f := session.AudioFrame{Seq: seq, Data: tone(100)}
				if seq == 4 {
					f = session.AudioFrame{Seq: seq, Final: true}
				}
				if e := s.Audio(f); (e != nil) != (round == 1) || e != nil && (e.Field != "seq" || !strings.Contains(e.Detail, "the next is 5")) {
					t.Errorf("frame %d, round %d: %v", seq, round, e)
				}
			}
			time.Sleep(time.Second)
		}
		synctest.Wait()
		wantCommitted(t, conn, "manual")
		if m := conn.last(t, "utterance_committed"); m["duration_ms"] != 300.0 {
			t.Errorf("utterance_committed: %v", m)
		}
		if e := s.Audio(session.AudioFrame{Seq: 6, Data: tone(100)}); e == nil || e.Field != "seq" {
			t.Errorf("a gap in the audio: %v", e)
		}
	})
}

// A connection that stalls within an utterance answers no ping: the utterance stays open, and audio that was stuck belongs to it.
func TestStallIsNotAPause(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		h.stream(s, tone(500))
		conn.setStalled(true)
		time.Sleep(1400 * time.Millisecond)
		synctest.Wait()
		wantCommitted(t, conn)
		conn.setStalled(false) // the stalled audio arrives
		h.stream(s, tone(300))
		h.send(s, session.AudioFrame{Final: true})
		synctest.Wait()
		wantCommitted(t, conn, "manual")
		if m := conn.last(t, "utterance_committed"); m["duration_ms"] != 800.0 {
			t.Errorf("the utterance was divided: %v", m)
		}
	})
}

func TestUnansweredPingClosesTheConnectionAndKeepsTheUtterance(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		h.stream(s, tone(500))
		conn.setStalled(true)
		time.Sleep(6200 * time.Millisecond)
		synctest.Wait()
		if code, e := conn.closed(); code != wire.CloseSlow || e == nil {
			t.Fatalf("closed with %d, %v", code, e)
		}
		s.Detach()
		wantCommitted(t, conn)
		resumed, nextConn, err := h.resume(s, conn.resumeToken(t), 0)
		if err != nil {
			t.Fatal(err)
		}
		h.stream(resumed, tone(300))
		h.send(resumed, session.AudioFrame{Final: true})
		synctest.Wait()
		if m := nextConn.last(t, "utterance_committed"); m["duration_ms"] != 800.0 || m["first_seq"] != 1.0 || m["last_seq"] != 8.0 {
			t.Errorf("utterance_committed: %v", m)
		}
	})
}

// The pong to an earlier ping does not end an utterance that has received audio since.
func TestPongAfterAudioEndsNothing(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		h.stream(s, tone(500))
		conn.setStalled(true)
		time.Sleep(1100 * time.Millisecond)
		h.stream(s, tone(100))
		conn.mu.Lock()
		pings := conn.pings
		conn.mu.Unlock()
		if pings != 1 {
			t.Fatalf("%d pings", pings)
		}
		s.Pong([]byte("of something else"))
		synctest.Wait()
		wantCommitted(t, conn)
	})
}

// A frame that is refused begins no utterance and is not counted, also if it would have ended another utterance.
func TestRefusedFrameIsNotCounted(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		h.send(s, session.AudioFrame{Seq: 1, Utterance: "u-1", Data: tone(100)})
		if e := s.Audio(session.AudioFrame{Seq: 2, Utterance: "u-2", Data: []byte("odd")}); e == nil || e.Field != "audio" {
			t.Fatalf("half a sample: %v", e)
		}
		h.send(s, session.AudioFrame{Seq: 2, Utterance: "u-2", Data: tone(100), Final: true})
		synctest.Wait()
		if diff := cmp.Diff([]float64{1, 2}, []float64{
			conn.received("utterance_committed")[0]["last_seq"].(float64), conn.received("utterance_committed")[1]["first_seq"].(float64),
		}); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestManualSegmentation(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start(func(in *wire.SessionStart) { in.Segmentation.Mode = wire.SegmentManual })
		if m := conn.last(t, "session_started")["segmentation"].(map[string]any); m["mode"] != "manual" {
			t.Errorf("session_started: %v", m)
		}
		h.stream(s, silence(500))
		h.stream(s, tone(500))
		h.stream(s, silence(3000))
		time.Sleep(30 * time.Second)
		h.stream(s, tone(100))
		synctest.Wait()
		wantCommitted(t, conn)
		h.send(s, session.AudioFrame{Final: true})
		synctest.Wait()
		wantCommitted(t, conn, "manual")
		if m := conn.last(t, "utterance_committed"); m["duration_ms"] != 4100.0 {
			t.Errorf("not all of the audio: %v", m)
		}
		h.stream(s, tone(12_000))
		synctest.Wait()
		wantCommitted(t, conn, "manual", "max_duration")
	})
}

// The limit of utterances that wait for their results holds however they are opened.
func TestPendingUtterancesAreBounded(t *testing.T) {
	run(t, func(h *harness) {
		h.cfg.MaxUnanswered, h.cfg.UtteranceRate = 2, 1000
		h.restartWith(h.store, h.dispatcher)
		s, _ := h.start()
		begun := 0
		for i := range 20 {
			time.Sleep(100 * time.Millisecond)
			if e := s.Begin(fmt.Sprint("u-", i), "", ""); e != nil {
				t.Fatal(e)
			}
			if e := s.Audio(session.AudioFrame{Data: tone(100), Final: true}); e == nil {
				begun++
			}
		}
		if begun != 4*2 {
			t.Errorf("%d utterances began, want 8", begun)
		}
	})
}

// A refused utterance_start changes nothing: the open utterance stays open.
func TestRefusedUtteranceStartChangesNothing(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		if e := errors.Join(asError(s.Begin("a", "es", "")), asError(s.Audio(session.AudioFrame{Data: tone(100)}))); e != nil {
			t.Fatal(e)
		}
		if e := s.Begin("b", "de", ""); e == nil || e.Field != "src_lang" {
			t.Fatalf("a language that is not the session's: %v", e)
		}
		if n := len(conn.received("utterance_committed")); n != 0 {
			t.Error("the open utterance was committed")
		}
		if e := s.Audio(session.AudioFrame{Data: tone(100), Final: true}); e != nil {
			t.Fatal(e)
		}
		synctest.Wait()
		if m := conn.last(t, "utterance_committed"); m["utterance_id"] != "a" || m["src_lang"] != "es" || m["duration_ms"] != float64(200) {
			t.Errorf("%v", m)
		}
	})
}

// asError makes a nil *wire.Error a nil error.
func asError(e *wire.Error) error {
	if e == nil {
		return nil
	}
	return e
}
