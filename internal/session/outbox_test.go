package session_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

func TestAcknowledgedMessagesAreDropped(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		for i := range 5 {
			h.complete(h.commit(s), fmt.Sprint("r", i))
		}
		synctest.Wait()
		if e := s.AckResults(6); e == nil || e.Field != "seq" {
			t.Errorf("a message that was not sent: %v", e)
		}
		if e := s.AckResults(3); e != nil {
			t.Fatal(e)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n, _ := h.outboxSize(s); n != 2 {
			t.Errorf("%d messages are kept, want 2", n)
		}
		s.Detach()
		// The last message that a resume names is acknowledged by it.
		_, nextConn, err := h.resume(s, conn.resumeToken(t), 4)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if m := nextConn.last(t, "session_resumed"); m["recovered"] != true {
			t.Errorf("session_resumed: %v", m)
		}
		wantTerminals(t, nextConn, "4 r4")
		if n, _ := h.outboxSize(s); n != 1 {
			t.Errorf("%d messages are kept after the resume, want 1", n)
		}
	})
}

// A terminal message has the frames of its utterance, so that a client that missed the commit knows which audio to drop.
func TestTerminalMessagesNameTheirFrames(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		h.complete(h.commit(s), "done")
		h.failJob(h.commit(s), core.ReasonMaxRetry)
		synctest.Wait()
		committed, terminals := conn.received("utterance_committed"), conn.received("result", "error")
		if len(committed) != 2 || len(terminals) != 2 {
			t.Fatalf("%d commits and %d terminal messages, want 2 each", len(committed), len(terminals))
		}
		for i, m := range terminals {
			if c := committed[i]; m["first_seq"] != c["first_seq"] || m["last_seq"] != c["last_seq"] {
				t.Errorf("%s has the frames %v-%v, committed were %v-%v", m["type"], m["first_seq"], m["last_seq"], c["first_seq"], c["last_seq"])
			}
		}
		s.Detach()
		_, nextConn, err := h.resume(s, conn.resumeToken(t), 0)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if m := nextConn.last(t, "result"); m["last_seq"] != committed[0]["last_seq"] {
			t.Errorf("after a resume: %v", m)
		}
	})
}

func TestOutboxIsBoundedInBytes(t *testing.T) {
	run(t, func(h *harness) {
		h.cfg.OutboxBytes = 100 << 10
		h.restartWith(h.store, h.dispatcher)
		s, conn := h.start()
		large := strings.Repeat("x", 20<<10) // each is in its message twice
		for range 20 {
			h.complete(h.commit(s), large)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if n, bytes := h.outboxSize(s); n == 0 || bytes > 100<<10 {
			t.Errorf("%d messages of %d bytes are kept", n, bytes)
		}
		s.Detach()
		resumed, nextConn, err := h.resume(s, conn.resumeToken(t), 3)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if m := nextConn.last(t, "session_resumed"); m["recovered"] != false {
			t.Errorf("session_resumed: %v", m)
		}
		h.complete(h.commit(resumed), "after")
		ends := nextConn.terminals()
		if diff := cmp.Diff("20 after", ends[len(ends)-1]); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// Large results that wait for an earlier one count as unanswered: they take the store's memory.
func TestLargeWaitingResultsCountAsUnanswered(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		h.commit(s) // without a result
		large := strings.Repeat("x", 60<<10)
		for range 12 {
			before := len(h.dispatcher.jobs())
			h.stream(s, tone(300))
			h.send(s, session.AudioFrame{Final: true})
			synctest.Wait()
			for _, id := range h.dispatcher.jobs()[before:] {
				h.complete(id, large)
			}
		}
		if n := len(h.dispatcher.jobs()); n > 8 {
			t.Errorf("%d results wait for the first", n)
		}
		h.complete(h.dispatcher.jobs()[0], "first")
		synctest.Wait()
		if n := len(conn.terminals()); n != 13 {
			t.Errorf("%d terminal messages", n)
		}
	})
}

// Large results that waited for an earlier one are all delivered when that has ended.
func TestLargeResultsOutOfOrderAreAllDelivered(t *testing.T) {
	run(t, func(h *harness) {
		h.cfg.MaxUnanswered = 16
		h.restartWith(h.store, h.dispatcher)
		s, conn := h.start()
		for range 12 {
			h.commit(s)
			time.Sleep(time.Second)
		}
		jobs := h.dispatcher.jobs()
		large := strings.Repeat("x", 100<<10)
		for _, id := range jobs[1:] {
			h.complete(id, large)
		}
		h.complete(jobs[0], "first")
		synctest.Wait()
		time.Sleep(time.Minute)
		synctest.Wait()
		var got []float64
		for _, m := range conn.received("result", "error") {
			got = append(got, m["utterance_index"].(float64))
		}
		if diff := cmp.Diff([]float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// Results are delivered in order, each once, whatever the order in which the jobs end and however often their ends are reported.
func TestResultsAreDeliveredInOrder(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		var jobs []core.JobID
		for range 4 {
			jobs = append(jobs, h.commit(s))
		}
		h.complete(jobs[2], "c")
		h.failJob(jobs[1], core.ReasonMaxRetry)
		wantTerminals(t, conn)
		h.complete(jobs[0], "a")
		h.complete(jobs[0], "another")
		wantTerminals(t, conn, "0 a", "1 MAX_RETRY_EXCEEDED", "2 c")
		h.complete(jobs[3], "d")
		wantTerminals(t, conn, "0 a", "1 MAX_RETRY_EXCEEDED", "2 c", "3 d")
		for i, m := range conn.received("result", "error") {
			if m["seq"] != float64(i+1) {
				t.Errorf("message %d has seq %v", i, m["seq"])
			}
		}
		if held := h.registry.AudioBuffer().Held(); held != 0 {
			t.Errorf("%d bytes are held", held)
		}
		s.End()
		if m := conn.last(t, "session_ended"); m["results"] != 3.0 || m["errors"] != 1.0 || m["utterances"] != 4.0 || m["audio_ms"] != 900.0 {
			t.Errorf("session_ended: %v", m)
		}
		if code, _ := conn.closed(); code != wire.CloseNormal {
			t.Errorf("closed with %d", code)
		}
		_, resumed, err := h.resume(s, conn.resumeToken(t), 4) // the end did not arrive
		if err != nil {
			t.Fatal(err)
		}
		resumed.last(t, "session_ended")
		time.Sleep(h.cfg.Resume + time.Second)
		synctest.Wait()
		if h.registry.Len() != 0 {
			t.Errorf("%d sessions left", h.registry.Len())
		}
	})
}

// A session that was kept alive without utterances for longer than messages are kept receives its results.
func TestLongQuietSessionReceivesResults(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		h.complete(h.commit(s), "a")
		for range 5 {
			time.Sleep(100 * time.Second)
			s.Keepalive()
		}
		job := h.commit(s)
		h.complete(job, "b")
		synctest.Wait()
		wantTerminals(t, conn, "0 a", "1 b")
	})
}

// Partials replace each other; those of an earlier attempt, and those after the result, are dropped.
func TestPartialsReplaceEachOther(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start(func(in *wire.SessionStart) { in.Partials = true })
		job := h.commit(s)
		part := func(attempt int, rev int64, text string) {
			h.registry.DeliverPartial(&wire.JobPartial{ActiveJob: wire.ActiveJob{JobID: string(job), AttemptID: attempt}, Rev: rev, TextSrc: text})
		}
		part(1, 1, "a")
		part(1, 3, "b")
		part(1, 2, "old")
		part(2, 1, "c")
		part(1, 9, "of a lower attempt")
		h.complete(job, "done")
		part(2, 2, "late")
		var got []string
		for _, m := range conn.received("partial") {
			got = append(got, m["text_src"].(string))
		}
		if diff := cmp.Diff([]string{"a", "b", "c"}, got); diff != "" {
			t.Errorf("partials (-want +got):\n%s", diff)
		}
	})
}

// Another instance has appended the terminal message of an utterance, and the news of it was lost. A later one of this instance
// does not count and is not sent.
func TestFirstTerminalMessageStands(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		job := h.commit(s)
		first, err := session.EncodeTerminalMessage(endedJob(job, h.dispatcher.placed[job], core.StateDone, "", `{"text_tgt":"first"}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.store.Append(t.Context(), store.AppendParams{Session: s.Ref(), Body: first, Keep: time.Minute}); err != nil {
			t.Fatal(err)
		}
		h.failJob(job, core.ReasonDeadline)
		synctest.Wait()
		if diff := cmp.Diff([]string{"0 first"}, conn.terminals()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// The totals count each message that was sent once, also after some were lost and the session was taken over.
func TestTotalsCountLostMessagesOnce(t *testing.T) {
	run(t, func(h *harness) {
		h.cfg.OutboxBytes = 100 << 10
		h.restartWith(h.store, h.dispatcher)
		s, conn := h.start()
		token := conn.resumeToken(t)
		s.Detach()
		large := strings.Repeat("x", 20<<10)
		resumed, _, err := h.resume(s, token, 0)
		if err != nil {
			t.Fatal(err)
		}
		var jobs []string
		for range 4 {
			jobs = append(jobs, string(h.commit(resumed)))
		}
		resumed.Detach()
		for i := range jobs {
			h.complete(h.dispatcher.jobs()[i], large)
		}
		resumed, nextConn, err := h.resume(s, token, 0)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		n := len(nextConn.received("result"))
		if e := resumed.AckResults(3); e != nil {
			t.Fatal(e)
		}
		time.Sleep(time.Second)
		h.replaceInstance()
		resumed, nextConn, err = h.resume(s, token, 4)
		if err != nil {
			t.Fatal(err)
		}
		resumed.End()
		synctest.Wait()
		if m := nextConn.last(t, "session_ended"); m["results"] != float64(n) {
			t.Errorf("%d results were sent: %v", n, m)
		}
	})
}
