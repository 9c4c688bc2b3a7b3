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

// The options of a session are saved once, however many utterances wait, and their total size is bounded.
func TestSavedStateIsBounded(t *testing.T) {
	run(t, func(h *harness) {
		h.cfg.MaxUnanswered = 16
		h.restartWith(h.store, h.dispatcher)
		s, _ := h.start()
		o := namedOptions(4000)
		if e := s.Update("", &o, &wire.SessionUpdate{}); e != nil {
			t.Fatal(e)
		}
		for range 16 {
			h.commit(s)
		}
		synctest.Wait()
		if n := h.stateSize(s); n > 16<<10 {
			t.Errorf("the state of 16 utterances with the same options of 4 KB takes %d bytes", n)
		}
		refused := 0
		for i := range 20 {
			o := namedOptions(3900)
			o.Region = fmt.Sprint("r", i)
			if e := s.Update("", &o, &wire.SessionUpdate{}); e != nil {
				if refused++; e.Code != wire.RateLimited {
					t.Fatal(e)
				}
				continue
			}
			h.stream(s, tone(100))
			h.send(s, session.AudioFrame{Final: true})
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if n := h.stateSize(s); refused == 0 || n > 64<<10 {
			t.Errorf("%d updates were refused; the state takes %d bytes", refused, n)
		}
	})
}

// A save that takes long does not overwrite a later one.
func TestSavesDoNotOvertakeEachOther(t *testing.T) {
	run(t, func(h *harness) {
		slow := &gatedStore{Store: h.store, gate: make(chan struct{})}
		h.restartWith(slow, h.dispatcher)
		s, conn := h.start()
		token := conn.resumeToken(t)
		h.stream(s, tone(300))
		_ = s.Audio(session.AudioFrame{Final: true}) // its save takes long
		synctest.Wait()
		h.stream(s, tone(300))
		time.Sleep(2 * time.Second) // a pause ends it
		synctest.Wait()
		close(slow.gate)
		synctest.Wait()
		if n := len(h.dispatcher.jobs()); n != 2 {
			t.Fatalf("%d jobs, want 2", n)
		}
		h.replaceInstance()
		_, nextConn, err := h.resume(s, token, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(nextConn.received("session_resumed")); got != 1 {
			t.Fatalf("%d session_resumed, want 1", got)
		}
		resumed, nextConn, err := h.resume(s, token, 0)
		if err != nil {
			t.Fatal(err)
		}
		for seq := int64(1); seq <= 7; seq++ { // 4 was an end
			frame := session.AudioFrame{Seq: seq, Data: tone(100)}
			if seq == 4 {
				frame = session.AudioFrame{Seq: seq, Final: true}
			}
			if e := resumed.Audio(frame); e != nil {
				t.Fatal(e)
			}
		}
		h.stream(resumed, tone(300)) // new audio, frames 8 to 10
		_ = resumed.Audio(session.AudioFrame{Final: true})
		synctest.Wait()
		var bounds []any
		for _, m := range nextConn.received("utterance_committed") {
			bounds = append(bounds, m["utterance_index"], m["first_seq"], m["last_seq"])
		}
		t.Logf("bounds after the takeover: %v", bounds)
		for _, m := range nextConn.received("utterance_committed") {
			if m["first_seq"] == 5.0 && m["last_seq"] != 7.0 {
				t.Errorf("an utterance with the bounds 5-7 got other bounds: %v", m)
			}
		}
	})
}

// Many updates while the store is slow start only a few saves.
func TestUpdatesShareSavesWhileTheStoreIsSlow(t *testing.T) {
	run(t, func(h *harness) {
		st := &blockedStore{Store: h.store, gate: make(chan struct{})}
		h.restartWith(st, h.dispatcher)
		s, _ := h.start()
		for range 5000 {
			_ = s.Update("es", nil, &wire.SessionUpdate{})
		}
		synctest.Wait()
		if st.blocked > 10 {
			t.Errorf("%d goroutines save one session at once", st.blocked)
		}
		close(st.gate)
	})
}

// The bounds of an utterance are reported when they are saved: before that, an instance that takes the session over may divide the
// audio elsewhere.
func TestCommitIsReportedWhenSaved(t *testing.T) {
	run(t, func(h *harness) {
		slow := &gatedStore{Store: h.store, gate: make(chan struct{})}
		h.restartWith(slow, h.dispatcher)
		s, conn := h.start()
		h.stream(s, tone(300))
		if e := s.Audio(session.AudioFrame{Final: true, Request: "r"}); e != nil {
			t.Fatal(e)
		}
		synctest.Wait()
		wantCommitted(t, conn)
		_, nextConn, err := h.resume(s, conn.resumeToken(t), 0)
		if err != nil {
			t.Fatal(err)
		}
		wantCommitted(t, nextConn)
		close(slow.gate)
		synctest.Wait()
		wantCommitted(t, conn)
		wantCommitted(t, nextConn, "manual")
	})
}

// The terminal message of an utterance that could not be saved in time waits until its bounds are saved and reported: no other
// utterance may get its turn.
func TestCommitIsReportedBeforeTheEnd(t *testing.T) {
	run(t, func(h *harness) {
		full := &fullStore{Store: h.store}
		h.restartWith(full, h.dispatcher)
		s, conn := h.start()
		full.full.Store(true)
		h.stream(s, tone(300))
		if e := s.Audio(session.AudioFrame{Final: true}); e != nil {
			t.Fatal(e)
		}
		time.Sleep(2 * h.cfg.Wait)
		synctest.Wait()
		if got := conn.received("utterance_committed", "error"); len(got) != 0 {
			t.Errorf("messages while nothing can be saved: %v", got)
		}
		full.full.Store(false)
		time.Sleep(h.cfg.Wait)
		synctest.Wait()
		var order []any
		for _, m := range conn.received("utterance_committed", "error") {
			order = append(order, m["type"])
		}
		if diff := cmp.Diff([]any{"utterance_committed", "error"}, order); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// An utterance that was refused keeps its turn, also when its instance dies right after.
func TestRefusedUtteranceKeepsItsTurn(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		var jobs []core.JobID
		for range h.cfg.MaxUnanswered {
			jobs = append(jobs, h.commit(s))
		}
		end := func(s *session.Connection) {
			h.stream(s, tone(300))
			if e := s.Audio(session.AudioFrame{Final: true}); e != nil {
				t.Fatal(e)
			}
			synctest.Wait()
		}
		end(s)
		wantCommitted(t, conn, "manual", "manual", "manual", "manual", "manual")
		for _, job := range jobs {
			h.complete(job, "x")
		}
		synctest.Wait()
		for _, received := range []int64{5, 4} { // the client received the refusal, or did not
			h.replaceInstance()
			resumed, nextConn, err := h.resume(s, conn.resumeToken(t), received)
			if err != nil {
				t.Fatal(err)
			}
			if m := nextConn.last(t, "session_resumed"); received == 5 && m["next_audio_seq"] != 21.0 {
				t.Errorf("the audio of the refused utterance is requested again: %v", m)
			}
			if received == 5 {
				continue
			}
			end(resumed)
			all := h.dispatcher.jobs()
			h.complete(all[len(all)-1], "next")
			synctest.Wait()
			if diff := cmp.Diff([]string{"4 RATE_LIMITED", "5 next"}, nextConn.terminals()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
	})
}
