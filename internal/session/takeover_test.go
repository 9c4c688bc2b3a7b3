package session_test

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/wire"
)

// Audio of an utterance that its client ended is dropped, also when it is sent again to another instance.
func TestLateAudioStaysLateAfterTakeover(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		token := conn.resumeToken(t)
		for seq := range 3 {
			if e := s.Audio(session.AudioFrame{Utterance: "u1", Data: tone(100), Final: seq == 2}); e != nil {
				t.Fatal(e)
			}
		}
		synctest.Wait()
		if e := s.Audio(session.AudioFrame{Utterance: "u1", Data: tone(100), Final: true}); e != nil { // late, frame 4
			t.Fatal(e)
		}
		synctest.Wait()
		wantCommitted(t, conn, "manual")
		h.complete(h.dispatcher.jobs()[0], "a")
		h.replaceInstance()
		resumed, nextConn, err := h.resume(s, token, 1)
		if err != nil {
			t.Fatal(err)
		}
		m := nextConn.last(t, "session_resumed")
		for seq := int64(m["next_audio_seq"].(float64)); seq <= 4; seq++ {
			if e := resumed.Audio(session.AudioFrame{Seq: seq, Utterance: "u1", Data: tone(100), Final: seq == 4}); e != nil {
				t.Fatal(e)
			}
		}
		synctest.Wait()
		if n := len(h.dispatcher.jobs()); n != 1 {
			t.Errorf("%d jobs, want 1: the late chunk became a job", n)
		}
	})
}

// The audio of an open utterance that was cancelled is not needed after a takeover.
func TestCancelledUtteranceAfterTakeover(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		token := conn.resumeToken(t)
		if e := s.Begin("u1", "", ""); e != nil {
			t.Fatal(e)
		}
		h.stream(s, tone(300))
		if e := s.Cancel("u1", ""); e != nil {
			t.Fatal(e)
		}
		time.Sleep(time.Second)
		h.replaceInstance()
		_, nextConn, err := h.resume(s, token, 0)
		if err != nil {
			t.Fatal(err)
		}
		if m := nextConn.last(t, "session_resumed"); m["next_audio_seq"] != 4.0 {
			t.Errorf("the audio of a cancelled utterance is requested again: %v", m)
		}
	})
}

// The audio of a long open utterance may be sent again at once after a takeover.
func TestLongOpenUtteranceIsReplayedAtOnce(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		token := conn.resumeToken(t)
		h.stream(s, tone(9000)) // at most 10 s, and 5 s ahead
		h.replaceInstance()
		resumed, _, err := h.resume(s, token, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 90 {
			if e := resumed.Audio(session.AudioFrame{Seq: int64(i + 1), Data: tone(100)}); e != nil {
				t.Fatalf("frame %d, which is sent again: %v", i+1, e)
			}
		}
	})
}

// A resume with a wrong token takes no session over.
func TestWrongTokenTakesNothingOver(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		token := conn.resumeToken(t)
		h.commit(s)
		h.replaceInstance()
		if _, _, err := h.resume(s, "wrong", 1_000_000); err == nil {
			t.Fatal("resumed")
		}
		if h.registry.Len() != 0 {
			t.Errorf("%d sessions after a wrong token", h.registry.Len())
		}
		_, nextConn, err := h.resume(s, token, 0)
		if err != nil {
			t.Fatal(err)
		}
		if m := nextConn.last(t, "session_resumed"); m["next_audio_seq"] != 1.0 {
			t.Errorf("the audio of the pending utterance is not requested: %v", m)
		}
	})
}

// A session is disconnected within an utterance and taken over while its first instance lives.
func TestTakeoverWhileTheFirstInstanceLives(t *testing.T) {
	run(t, func(h *harness) {
		a, b := h.registry, h.newRegistry(h.store, strictDispatcher{h.dispatcher})
		defer b.Close()
		s, conn := h.start()
		token := conn.resumeToken(t)
		h.stream(s, tone(500))
		s.Detach() // the connection is lost
		nextConn := &fakeConn{}
		resumed, err := b.Resume(t.Context(), session.ResumeParams{Session: s.ID(), Token: token}, nextConn)
		if err != nil {
			t.Fatal(err)
		}
		from := int64(nextConn.last(t, "session_resumed")["next_audio_seq"].(float64))
		for seq := from; seq <= 25; seq++ {
			if e := resumed.Audio(session.AudioFrame{Seq: seq, Data: tone(100)}); e != nil {
				t.Fatal(e)
			}
			if seq > 5 {
				time.Sleep(100 * time.Millisecond)
			}
		}
		_ = resumed.Audio(session.AudioFrame{Final: true})
		synctest.Wait()
		for _, id := range h.dispatcher.jobs() {
			h.dispatcher.mu.Lock()
			t.Logf("job %s: %s", id, h.dispatcher.placed[id].AudioRef)
			h.dispatcher.mu.Unlock()
		}
		_ = a
		h.complete(h.dispatcher.jobs()[0], "x") // the node is connected to the first instance
		time.Sleep(time.Minute)
		synctest.Wait()
		wantTerminals(t, nextConn, "0 x")
	})
}

// The result of a job arrives at the previous instance of a session that was taken over.
func TestResultDecidedByThePreviousInstance(t *testing.T) {
	run(t, func(h *harness) {
		b := h.newRegistry(h.store, h.dispatcher)
		defer b.Close()
		s, conn := h.start()
		token := conn.resumeToken(t)
		job := h.commit(s)
		s.Detach()
		nextConn := &fakeConn{}
		if _, err := b.Resume(t.Context(), session.ResumeParams{Session: s.ID(), Token: token}, nextConn); err != nil {
			t.Fatal(err)
		}
		h.complete(job, "x") // at the first instance, where the node is connected
		time.Sleep(time.Minute)
		synctest.Wait()
		wantTerminals(t, nextConn, "0 x")
	})
}

// The first instance commits an utterance while another instance takes the session over. The state that the other has read before must
// not overwrite it.
func TestTakeoverDoesNotOverwriteANewerState(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		token := conn.resumeToken(t)
		h.stream(s, tone(500)) // frames 1 to 5 at the first instance, whose connection is half open
		st := &interleavedStore{Store: h.store}
		b := h.newRegistry(st, strictDispatcher{h.dispatcher})
		defer b.Close()
		st.afterLoad = func() { // at this moment the first instance commits, saves and places the utterance
			time.Sleep(1500 * time.Millisecond)
			synctest.Wait()
			if n := len(h.dispatcher.jobs()); n != 1 {
				t.Fatalf("%d jobs", n)
			}
		}
		nextConn := &fakeConn{}
		resumed, err := b.Resume(t.Context(), session.ResumeParams{Session: s.ID(), Token: token}, nextConn)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("resumed: %v", nextConn.last(t, "session_resumed"))
		for seq := int64(1); seq <= 8; seq++ { // the client sends everything again, and then new audio
			if e := resumed.Audio(session.AudioFrame{Seq: seq, Data: tone(100)}); e != nil {
				t.Fatal(e)
			}
			time.Sleep(100 * time.Millisecond)
		}
		_ = resumed.Audio(session.AudioFrame{Final: true})
		synctest.Wait()
		for _, m := range nextConn.received("utterance_committed") {
			t.Logf("committed: index %v, %v-%v, %v", m["utterance_index"], m["first_seq"], m["last_seq"], m["job_id"])
			if m["first_seq"] == 1.0 && m["last_seq"] != 5.0 {
				t.Errorf("an utterance with the bounds 1-5, which was dispatched, got the bounds %v-%v", m["first_seq"], m["last_seq"])
			}
		}
		h.complete(h.dispatcher.jobs()[0], "one to five")
		time.Sleep(time.Minute)
		synctest.Wait()
		t.Logf("terminal messages: %q", nextConn.terminals())
		if len(nextConn.terminals()) == 1 && nextConn.terminals()[0] != "0 one to five" {
			t.Errorf("frames 6 to 8 were accepted and have no result; the terminal messages are %q", nextConn.terminals())
		}
	})
}

// Audio that is sent again to another instance has the same packets, and a frame that is no packet is refused there too.
func TestOpusPacketsAfterTakeover(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start(func(in *wire.SessionStart) { in.Audio.Encoding = "opus" })
		packets := [][]byte{{8, 1, 1, 1}, {8, 2}, {8, 3, 3}}
		speak := func(s *session.Connection) {
			for i, packet := range packets {
				if e := s.Audio(session.AudioFrame{Seq: int64(i + 1), Data: packet, Final: i == 2}); e != nil {
					t.Fatal(e)
				}
			}
			synctest.Wait()
		}
		speak(s)
		job := core.JobID(conn.last(t, "utterance_committed")["job_id"].(string))
		hold := func(when string) {
			clip := h.registry.AudioBuffer().Clip(job)
			if clip == nil || clip.Chunks() != len(packets) {
				t.Fatalf("%s: %+v", when, clip)
			}
			for i, packet := range packets {
				if !bytes.Equal(clip.Chunk(i), packet) {
					t.Errorf("%s: packet %d is %v", when, i, clip.Chunk(i))
				}
			}
		}
		hold("at first")
		h.replaceInstance()
		resumed, _, err := h.resume(s, conn.resumeToken(t), 0)
		if err != nil {
			t.Fatal(err)
		}
		if e := resumed.Audio(session.AudioFrame{Seq: 1, Data: []byte{3}}); e == nil || e.Field != "audio" {
			t.Errorf("a frame that is no packet was accepted: %v", e)
		}
		speak(resumed)
		hold("after the takeover")
	})
}

// The state of a session that is only kept alive does not expire.
func TestLongQuietSessionCanBeTakenOver(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		token := conn.resumeToken(t)
		h.complete(h.commit(s), "a")
		for range 5 {
			time.Sleep(100 * time.Second)
			s.Keepalive()
		}
		h.replaceInstance()
		if _, _, err := h.resume(s, token, 1); err != nil {
			t.Error(err)
		}
	})
}

func TestTotalsAfterTakeover(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		token := conn.resumeToken(t)
		h.complete(h.commit(s), "a")
		h.complete(h.commit(s), "b")
		h.replaceInstance()
		resumed, nextConn, err := h.resume(s, token, 2)
		if err != nil {
			t.Fatal(err)
		}
		resumed.End()
		synctest.Wait()
		if m := nextConn.last(t, "session_ended"); m["results"] != 2.0 || m["utterances"] != 2.0 {
			t.Errorf("session_ended: %v", m)
		}
	})
}

// Another instance continues a session whose instance died: it has the lost audio sent again, assigns it to the same utterances
// and makes no second job of them.
func TestTakeoverReplaysAudioIntoTheSameUtterances(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		token := conn.resumeToken(t)
		jobs := []core.JobID{h.commit(s), h.commit(s)} // frames 1 to 4 and 5 to 8, of which the last of each are ends
		h.stream(s, tone(300))                         // 9 to 11, open
		h.replaceInstance()
		h.complete(jobs[0], "a")

		resumed, nextConn, err := h.resume(s, token, 0)
		if err != nil {
			t.Fatal(err)
		}
		if m := nextConn.last(t, "session_resumed"); m["next_audio_seq"] != 5.0 || m["recovered"] != true {
			t.Errorf("session_resumed: %v", m)
		}
		synctest.Wait()
		wantTerminals(t, nextConn, "0 a")
		h.stream(resumed, tone(300))
		if e := resumed.Audio(session.AudioFrame{Final: true}); e != nil {
			t.Fatal(e)
		}
		synctest.Wait()
		if diff := cmp.Diff([]core.JobID{jobs[1]}, h.dispatcher.resumed); diff != "" {
			t.Errorf("jobs that were resumed (-want +got):\n%s", diff)
		}
		if clip := h.registry.AudioBuffer().Clip(jobs[1]); clip == nil || len(clip.Data) != len(tone(300)) {
			t.Errorf("the audio that was sent again: %v", clip)
		}
		h.stream(resumed, tone(300))
		h.stream(resumed, tone(200))
		if e := resumed.Audio(session.AudioFrame{Final: true}); e != nil {
			t.Fatal(e)
		}
		synctest.Wait()
		if m := nextConn.last(t, "utterance_committed"); m["first_seq"] != 9.0 || m["utterance_index"] != 2.0 || m["duration_ms"] != 500.0 {
			t.Errorf("the open utterance: %v", m)
		}
		if got := h.dispatcher.jobs(); len(got) != 3 {
			t.Errorf("%d jobs, want 3", len(got))
		}
		h.complete(h.dispatcher.jobs()[2], "c")
		h.complete(jobs[1], "b")
		wantTerminals(t, nextConn, "0 a", "1 b", "2 c")
		if held := h.registry.AudioBuffer().Held(); held != 0 {
			t.Errorf("%d bytes are held", held)
		}
	})
}

// An utterance that had not become a job when its instance died becomes one when its audio was sent again.
func TestTakeoverPlacesAnUtteranceThatWasNoJob(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		h.dispatcher.refusal = wire.Errorf(wire.AllCandidatesFullOrFailed, "full")
		h.stream(s, tone(300))
		if e := s.Audio(session.AudioFrame{Final: true}); e != nil {
			t.Fatal(e)
		}
		synctest.Wait()
		h.replaceInstance()
		h.dispatcher.refusal = nil
		resumed, nextConn, err := h.resume(s, conn.resumeToken(t), 0)
		if err != nil {
			t.Fatal(err)
		}
		h.stream(resumed, tone(300))
		synctest.Wait()
		if n := len(h.dispatcher.jobs()); n != 1 {
			t.Fatalf("%d jobs, want 1", n)
		}
		h.complete(h.dispatcher.jobs()[0], "a")
		wantTerminals(t, nextConn, "0 a")
	})
}

// A further part is recognised after a takeover: the saved state has the utterance that it continues.
func TestFurtherPartAfterTakeover(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		token := conn.resumeToken(t)
		if e := s.Begin("u-1", "", "req-1"); e != nil {
			t.Fatal(e)
		}
		h.stream(s, tone(300))
		time.Sleep(time.Second)
		synctest.Wait()
		h.complete(h.dispatcher.jobs()[0], "a")
		h.replaceInstance()
		resumed, nextConn, err := h.resume(s, token, 1)
		if err != nil {
			t.Fatal(err)
		}
		h.send(resumed, session.AudioFrame{Seq: 4, Utterance: "u-1", Data: tone(100), Final: true})
		synctest.Wait()
		if diff := cmp.Diff([]string{"1 u-1 req-1~1 manual of 0"}, committedParts(nextConn)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// Of two chunks of different utterances in a row, each belongs to its own utterance.
func TestFrameOfTheNextUtteranceIsNotCountedAsOwn(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		token := conn.resumeToken(t)
		h.send(s, session.AudioFrame{Utterance: "u-1", Data: tone(100)})
		h.send(s, session.AudioFrame{Utterance: "u-2", Data: tone(100)}) // ends u-1
		synctest.Wait()
		m := conn.last(t, "utterance_committed")
		if m["first_seq"] != 1.0 || m["last_seq"] != 1.0 {
			t.Fatalf("utterance_committed: %v", m)
		}
		h.complete(h.dispatcher.jobs()[0], "a")
		h.replaceInstance()
		resumed, nextConn, err := h.resume(s, token, 1)
		if err != nil {
			t.Fatal(err)
		}
		if m := nextConn.last(t, "session_resumed"); m["next_audio_seq"] != 2.0 {
			t.Fatalf("the open utterance's first frame is not asked for: %v", m)
		}
		h.send(resumed, session.AudioFrame{Seq: 2, Utterance: "u-2", Data: tone(100), Final: true})
		synctest.Wait()
		if m := nextConn.last(t, "utterance_committed"); m["utterance_id"] != "u-2" || m["first_seq"] != 2.0 {
			t.Errorf("utterance_committed: %v", m)
		}
	})
}
