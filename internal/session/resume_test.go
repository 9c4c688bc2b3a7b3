package session_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

func TestControlMessagesAreRateLimited(t *testing.T) {
	run(t, func(h *harness) {
		s, _ := h.start()
		var last *wire.Error
		for range 1000 {
			if e := s.Update("en", nil, &wire.SessionUpdate{}); e != nil {
				last = e
			}
		}
		if last == nil || last.Code != wire.RateLimited || last.RetryAfterMS == 0 {
			t.Errorf("a thousand updates at once: %v", last)
		}
	})
}

// A frame that the reader of a replaced connection had already read is dropped: the client sends it again over the new connection.
func TestReplacedConnectionIsIgnored(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		h.stream(s, tone(300))
		resumed, nextConn, err := h.resume(s, conn.resumeToken(t), 0)
		if err != nil {
			t.Fatal(err)
		}
		if m := nextConn.last(t, "session_resumed"); m["next_audio_seq"] != 4.0 {
			t.Fatalf("session_resumed: %v", m)
		}
		// The reader of the old connection had read a message while Resume held the lock.
		_ = s.Audio(session.AudioFrame{Data: tone(100)})
		// The client sends frame 4 again, and 5, in binary frames.
		_ = resumed.Audio(session.AudioFrame{Data: tone(100)})
		_ = resumed.Audio(session.AudioFrame{Data: tone(100)})
		_ = resumed.Audio(session.AudioFrame{Final: true})
		synctest.Wait()
		if m := nextConn.last(t, "utterance_committed"); m["last_seq"] != 5.0 || m["duration_ms"] != 500.0 {
			t.Errorf("five frames were sent: %v", m)
		}
	})
}

// A client can resume after its instance died and the store has lost the last message that the client received.
func TestResumeAfterTheStoreLostTheLastMessage(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		token := conn.resumeToken(t)
		h.commit(s)
		h.replaceInstance()
		_, nextConn, err := h.resume(s, token, 1) // the client has its result; the store has lost the append
		if err != nil {
			t.Errorf("the session cannot be resumed: %v", err)
			return
		}
		t.Log(nextConn.last(t, "session_resumed"))
	})
}

// Pongs do not count as messages: every WebSocket library answers pings by itself.
func TestPongsDoNotKeepAnIdleSession(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		for range 30 {
			time.Sleep(15 * time.Second)
			s.Pong(nil)
		}
		synctest.Wait()
		if code, _ := conn.closed(); code != wire.CloseIdle {
			t.Errorf("after 7.5 minutes of nothing but pongs, with an idle timeout of %v, it is closed with %d", h.cfg.Idle, code)
		}
	})
}

// An earlier connection that is still read does not race with changes over the current one.
func TestReplacedConnectionDoesNotRace(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		resumed, _, err := h.resume(s, conn.resumeToken(t), 0)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan bool)
		go func() {
			for range 100 {
				_ = s.Numbered()
			}
			close(done)
		}()
		for range 100 {
			_ = resumed.Update("en", nil, &wire.SessionUpdate{})
		}
		<-done
	})
}

// A result that is appended while the session is resumed is not lost.
func TestResultAppendedDuringResumeIsDelivered(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		job := h.commit(s)
		body, err := session.EncodeTerminalMessage(endedJob(job, h.dispatcher.placed[job], core.StateDone, "", `{"text_tgt":"hola"}`))
		if err != nil {
			t.Fatal(err)
		}
		h.restartWith(&appendingStore{h.store, sync.OnceFunc(func() {
			if _, err := h.store.Append(t.Context(), store.AppendParams{Session: s.Ref(), Body: body, Keep: time.Minute}); err != nil {
				t.Error(err)
			}
		})}, h.dispatcher)
		_, nextConn, err := h.resume(s, conn.resumeToken(t), 0)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if m := nextConn.last(t, "session_resumed"); m["recovered"] != true {
			t.Errorf("session_resumed: %v", m)
		}
		if diff := cmp.Diff([]string{"0 hola"}, nextConn.terminals()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// The end of a session commits the open utterance and waits for the results.
func TestEndWaitsForResults(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		first := h.commit(s)
		h.stream(s, tone(200))
		s.End()
		synctest.Wait()
		wantCommitted(t, conn, "manual", "end")
		if e := s.Audio(session.AudioFrame{Data: tone(100)}); e == nil {
			t.Error("audio after the end was accepted")
		}
		if len(conn.received("session_ended")) != 0 {
			t.Error("the session ended before its results")
		}
		h.complete(h.dispatcher.jobs()[1], "b")
		h.complete(first, "a")
		wantTerminals(t, conn, "0 a", "1 b")
		conn.last(t, "session_ended")
	})
}

// A client that has missed more messages than are kept learns that, and the session continues.
func TestResumeReportsMessagesThatAreNoLongerKept(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		token := conn.resumeToken(t)
		const many = 1200
		for range many {
			h.complete(h.commit(s), "x")
			time.Sleep(time.Second)
		}
		s.Detach()
		s, nextConn, err := h.resume(s, token, 1)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if m := nextConn.last(t, "session_resumed"); m["recovered"] != false {
			t.Errorf("session_resumed: %v", m)
		}
		if got := len(nextConn.received("result")); got < 1000 || got >= many-1 {
			t.Errorf("%d results were sent again", got)
		}
		h.complete(h.commit(s), "y")
		s.End()
		synctest.Wait()
		if m := nextConn.last(t, "session_ended"); m["utterances"] != float64(many+1) {
			t.Errorf("session_ended: %v", m)
		}
	})
}

// Results that were decided while the client was disconnected, or were sent and did not arrive, are sent over the next connection.
func TestResumeDeliversMissedResults(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		token := conn.resumeToken(t)
		var jobs []core.JobID
		for range 3 {
			jobs = append(jobs, h.commit(s))
		}
		h.complete(jobs[0], "a")
		h.complete(jobs[1], "b")
		h.stream(s, tone(300)) // an open utterance
		s.Detach()
		h.complete(jobs[2], "c")
		time.Sleep(300 * time.Millisecond)

		s, nextConn, err := h.resume(s, token, 1) // only the first result arrived
		if err != nil {
			t.Fatal(err)
		}
		m := nextConn.last(t, "session_resumed")
		if m["recovered"] != true || m["next_audio_seq"] != 16.0 || m["last_seq"] != 3.0 {
			t.Errorf("session_resumed: %v", m)
		}
		synctest.Wait()
		wantTerminals(t, nextConn, "1 b", "2 c")
		h.stream(s, tone(200))
		if e := s.Audio(session.AudioFrame{Final: true}); e != nil {
			t.Fatal(e)
		}
		synctest.Wait()
		if m := nextConn.last(t, "utterance_committed"); m["first_seq"] != 13.0 || m["duration_ms"] != 500.0 {
			t.Errorf("the utterance that was open: %v", m)
		}
		h.complete(h.dispatcher.jobs()[3], "d")
		wantTerminals(t, nextConn, "1 b", "2 c", "3 d")
		s.End()
		if m := nextConn.last(t, "session_ended"); m["results"] != 4.0 {
			t.Errorf("session_ended: %v", m)
		}
	})
}

func TestResumeReplacesTheConnection(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		job := h.commit(s)
		_, nextConn, err := h.resume(s, conn.resumeToken(t), 0)
		if err != nil {
			t.Fatal(err)
		}
		if code, _ := conn.closed(); code != wire.CloseReplaced {
			t.Errorf("the first was closed with %d", code)
		}
		s.Detach() // late: it does not concern the second connection
		h.complete(job, "a")
		wantTerminals(t, nextConn, "0 a")
		if diff := cmp.Diff([]string{"manual"}, committedReasons(nextConn)); diff != "" {
			t.Errorf("pending utterances that were reported again (-want +got):\n%s", diff)
		}
	})
}

func TestResumeIsRefused(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		token := conn.resumeToken(t)
		refused := func(p session.ResumeParams, code wire.Code) {
			t.Helper()
			_, err := h.registry.Resume(h.t.Context(), p, &fakeConn{})
			var e *wire.Error
			if !errors.As(err, &e) || e.Code != code {
				t.Errorf("%+v: %v, want %s", p, err, code)
			}
		}
		refused(session.ResumeParams{Session: s.ID(), Token: token + "x"}, wire.Forbidden)
		refused(session.ResumeParams{Session: s.ID()}, wire.Forbidden)
		refused(session.ResumeParams{Session: s.ID(), Token: token, Tenant: "acme"}, wire.NotFound) // the tenant has no such session
		refused(session.ResumeParams{Session: "other", Token: token}, wire.NotFound)
		refused(session.ResumeParams{Session: s.ID(), Token: token, Last: 7_000}, wire.InvalidRequest)
		s.Detach()
		time.Sleep(h.cfg.Resume + time.Second)
		synctest.Wait()
		if h.registry.Len() != 0 {
			t.Error("the session did not expire")
		}
	})
}

func TestIdleSessionIsClosed(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		for range 3 {
			time.Sleep(h.cfg.Idle - time.Second)
			s.Keepalive()
		}
		if code, _ := conn.closed(); code != 0 {
			t.Fatalf("closed with %d although it was kept alive", code)
		}
		time.Sleep(h.cfg.Idle + time.Second)
		synctest.Wait()
		if code, e := conn.closed(); code != wire.CloseIdle || e == nil || h.registry.Len() != 0 {
			t.Errorf("closed with %d, %v; %d sessions", code, e, h.registry.Len())
		}
	})
}
