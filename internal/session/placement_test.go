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

func TestCancelDuringPlacement(t *testing.T) {
	run(t, func(h *harness) {
		slow := &gatedDispatcher{fakeDispatcher: h.dispatcher, gate: make(chan struct{})}
		h.restartWith(h.store, slow)
		s, conn := h.start()
		h.stream(s, tone(300))
		if e := s.Audio(session.AudioFrame{Final: true}); e != nil {
			t.Fatal(e)
		}
		synctest.Wait()
		job := conn.last(t, "utterance_committed")["job_id"].(string)
		if e := s.Cancel("", core.JobID(job)); e != nil {
			t.Fatal(e)
		}
		synctest.Wait()
		close(slow.gate)
		synctest.Wait()
		time.Sleep(time.Minute)
		synctest.Wait()
		wantTerminals(t, conn, "0 CANCELLED")
	})
}

// A job that reports nothing ends its utterance in time as well.
func TestUnansweredJobEndsWithinResultTimeout(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		h.commit(s)
		for range 6 {
			time.Sleep(7 * time.Second)
			s.Keepalive()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		wantTerminals(t, conn, "0 DEADLINE_EXCEEDED")
	})
}

// Utterances of a session that the same nodes could serve are placed in order; those of the other direction do not
// wait for them.
func TestUtterancesArePlacedInOrder(t *testing.T) {
	run(t, func(h *harness) {
		d := &orderedDispatcher{fakeDispatcher: h.dispatcher, calls: make(chan int64, 16), gate: make(chan struct{})}
		h.restartWith(h.store, d)
		s, _ := h.start()
		for _, src := range []string{"en", "en", "es", "en"} {
			h.send(s, session.AudioFrame{Data: tone(100), Src: core.Lang(src), Final: true})
			time.Sleep(200 * time.Millisecond)
		}
		synctest.Wait()
		var asked []int64
		drain := func() []int64 {
			synctest.Wait()
			for len(d.calls) > 0 {
				asked = append(asked, <-d.calls)
			}
			return asked
		}
		if diff := cmp.Diff([]int64{1, 3}, drain()); diff != "" {
			t.Errorf("at first (-want +got):\n%s", diff)
		}
		close(d.gate)
		if diff := cmp.Diff([]int64{1, 3, 2, 4}, drain()); diff != "" {
			t.Errorf("in the end (-want +got):\n%s", diff)
		}
	})
}

// When an utterance is cancelled while it waits for a node, the next one is placed.
func TestNextUtteranceIsPlacedAfterACancel(t *testing.T) {
	run(t, func(h *harness) {
		d := &orderedDispatcher{fakeDispatcher: h.dispatcher, calls: make(chan int64, 16), gate: make(chan struct{})}
		h.restartWith(h.store, d)
		s, conn := h.start()
		for _, id := range []string{"u-1", "u-2"} {
			h.send(s, session.AudioFrame{Utterance: id, Data: tone(100), Final: true})
			time.Sleep(200 * time.Millisecond)
		}
		synctest.Wait()
		if e := s.Cancel("u-1", ""); e != nil {
			t.Fatal(e)
		}
		synctest.Wait()
		close(d.gate)
		synctest.Wait()
		for _, id := range h.dispatcher.jobs() {
			h.complete(id, "b")
		}
		synctest.Wait()
		wantTerminals(t, conn, "0 CANCELLED", "1 b")
	})
}

// The bounds of an utterance are saved and reported at once, however long earlier ones wait for a node.
func TestCommitDoesNotWaitForEarlierUtterances(t *testing.T) {
	run(t, func(h *harness) {
		d := &orderedDispatcher{fakeDispatcher: h.dispatcher, calls: make(chan int64, 16), gate: make(chan struct{})}
		h.restartWith(h.store, d)
		s, conn := h.start()
		for range 3 {
			h.send(s, session.AudioFrame{Data: tone(100), Final: true})
			time.Sleep(200 * time.Millisecond)
		}
		synctest.Wait()
		if committed := conn.received("utterance_committed"); len(committed) != 3 {
			t.Errorf("%d of 3 utterances were committed while the first waits for a node", len(committed))
		}
		close(d.gate)
	})
}

// An utterance waits while the fleet is full; after that it ends without having been a job.
func TestPlacementWaitsForAFullFleet(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		full := wire.Errorf(wire.AllCandidatesFullOrFailed, "full")
		set := func(e *wire.Error) {
			h.dispatcher.mu.Lock()
			h.dispatcher.refusal = e
			h.dispatcher.mu.Unlock()
		}
		speak := func() {
			h.stream(s, tone(100))
			if e := s.Audio(session.AudioFrame{Final: true}); e != nil {
				t.Fatal(e)
			}
		}
		set(full)
		speak()
		time.Sleep(5 * time.Second)
		set(nil)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(h.dispatcher.jobs()) != 1 {
			t.Fatal("the utterance was not placed when a slot was free")
		}
		set(full)
		speak()
		time.Sleep(11 * time.Second)
		synctest.Wait()
		h.complete(h.dispatcher.jobs()[0], "a")
		wantTerminals(t, conn, "0 a", "1 ALL_CANDIDATES_FULL_OR_FAILED")

		set(wire.FieldErrorf(wire.RequestMismatch, "request_id", "other content"))
		synctest.Wait()
		asked := h.dispatcher.calls
		speak()
		synctest.Wait()
		wantTerminals(t, conn, "0 a", "1 ALL_CANDIDATES_FULL_OR_FAILED", "2 REQUEST_MISMATCH")
		if h.dispatcher.calls != asked+1 {
			t.Error("a final refusal was retried")
		}
	})
}

// Cancel ends the open utterance, one that waits for a node, and one that a node has.
func TestCancel(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		if e := s.Begin("u-0", "", ""); e != nil {
			t.Fatal(e)
		}
		h.stream(s, tone(100))
		if e := s.Cancel("u-0", ""); e != nil {
			t.Fatal(e)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		wantCommitted(t, conn)

		job := h.commit(s)
		if e := s.Cancel("", job); e != nil {
			t.Fatal(e)
		}
		synctest.Wait()
		wantTerminals(t, conn, "0 CANCELLED")

		h.dispatcher.mu.Lock()
		h.dispatcher.refusal = wire.Errorf(wire.NoCapableNode, "none")
		h.dispatcher.mu.Unlock()
		if e := s.Audio(session.AudioFrame{Utterance: "u-2", Data: tone(100), Final: true}); e != nil {
			t.Fatal(e)
		}
		synctest.Wait()
		if e := s.Cancel("u-2", ""); e != nil {
			t.Fatal(e)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		wantTerminals(t, conn, "0 CANCELLED", "1 CANCELLED")
		if e := s.Cancel("u-9", ""); e == nil || e.Code != wire.NotFound {
			t.Errorf("an unknown utterance: %v", e)
		}
		if held := h.registry.AudioBuffer().Held(); held != 0 {
			t.Errorf("%d bytes are held", held)
		}
	})
}

// commitToFullFleet commits an utterance, for which there is a free slot after 4 of 6 seconds, and returns the connection of its session.
func (h *harness) commitToFullFleet() *fakeConn {
	h.t.Helper()
	h.dispatcher.refusal = wire.Errorf(wire.AllCandidatesFullOrFailed, "full")
	s, conn := h.start()
	h.stream(s, tone(300))
	h.send(s, session.AudioFrame{Final: true})
	time.Sleep(4 * time.Second)
	h.dispatcher.mu.Lock()
	h.dispatcher.refusal = nil
	h.dispatcher.mu.Unlock()
	time.Sleep(2 * time.Second)
	synctest.Wait()
	return conn
}

// The result of an utterance says how long it waited, and its total counts from the end of the utterance.
func TestLatencyCountsTheWait(t *testing.T) {
	run(t, func(h *harness) {
		conn := h.commitToFullFleet()
		h.complete(h.dispatcher.jobs()[0], "a") // a second after the job was made
		synctest.Wait()
		latency := conn.last(t, "result")["latency"].(map[string]any)
		wait, total := latency["wait_ms"].(float64), latency["total_ms"].(float64)
		if wait < 4000 || wait > 6000 || total != wait+1000 {
			t.Errorf("latency: %v", latency)
		}
	})
}

// TestLastNodeOfASession: a request names the node of the utterance before, also after a retry on another node and after the session
// has moved to another instance.
func TestLastNodeOfASession(t *testing.T) {
	run(t, func(h *harness) {
		h.cfg.Spread = true
		h.restartWith(h.store, h.dispatcher)
		s, conn := h.start()
		token := conn.resumeToken(t)
		nodeBefore := func(id core.JobID, want core.NodeID) {
			t.Helper()
			if got := h.dispatcher.nodeBefore(id); got != want {
				t.Errorf("the node before is %q, want %q", got, want)
			}
		}
		first := h.commit(s)
		nodeBefore(first, "")
		nodeBefore(h.commit(s), "n1")
		h.completeOn("n2", first) // of an earlier utterance than the last
		retried := h.commit(s)
		nodeBefore(retried, "n1")
		h.complete(h.dispatcher.jobs()[1], "b")
		h.completeOn("n3", retried)
		last := h.commit(s)
		nodeBefore(last, "n3")
		h.complete(last, "d")
		time.Sleep(time.Second) // the state is saved
		h.replaceInstance()
		resumed, _, err := h.resume(s, token, 4)
		if err != nil {
			t.Fatal(err)
		}
		nodeBefore(h.commit(resumed), "n1")
	})
}
