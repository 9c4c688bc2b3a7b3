package session_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
)

// A failover of the store loses the last message of an outbox, which the client has received. Later messages must not wait for it.
func TestStoreLosesTheLastMessage(t *testing.T) {
	run(t, func(h *harness) {
		primary := &switchableStore{Store: h.store}
		h.restartWith(primary, h.dispatcher)
		s, conn := h.start()
		first := h.commit(s)
		h.complete(first, "a")
		second := h.commit(s)
		st, err := h.store.LoadSession(t.Context(), s.Ref().SessionKey)
		if err != nil {
			t.Fatal(err)
		}
		messages, err := h.store.Read(t.Context(), store.ReadParams{Session: s.Ref()})
		if err != nil || len(messages) != 1 {
			t.Fatal(messages, err)
		}
		// The replica has everything up to now, but not the next append.
		replica := memstore.New(store.Timing{Presence: 15 * time.Second, Job: 30 * time.Second, Retention: time.Minute})
		for epoch := int64(1); epoch <= st.Epoch; epoch++ {
			if held, err := replica.SaveSession(t.Context(), store.SaveParams{
				Session: s.Ref(), Ownership: store.Ownership{Owner: st.Owner, Epoch: epoch}, TakeOver: true, Body: st.Body, Keep: 10 * time.Minute,
			}); err != nil || !held {
				t.Fatal(held, err)
			}
		}
		if _, err := replica.Append(t.Context(), store.AppendParams{Session: s.Ref(), Index: 0, Body: messages[0].Body, Keep: 10 * time.Minute}); err != nil {
			t.Fatal(err)
		}
		h.complete(second, "b")
		synctest.Wait()
		wantTerminals(t, conn, "0 a", "1 b")
		primary.Store = replica // the primary dies
		third, fourth := h.commit(s), h.commit(s)
		h.complete(third, "c")
		h.complete(fourth, "d")
		for range 40 {
			time.Sleep(10 * time.Second)
			s.Keepalive()
		}
		synctest.Wait()
		wantTerminals(t, conn, "0 a", "1 b", "2 c", "3 d")
	})
}

// The store is emptied while results wait in it for an earlier one. They are delivered all the same, in order; of those that are not in
// memory any more the client is told that they were lost.
func TestStoreLosesWaitingResults(t *testing.T) {
	for _, sent := range []int{0, 3} {
		t.Run(fmt.Sprint(sent, " results were sent before"), func(t *testing.T) {
			run(t, func(h *harness) {
				h.cfg.MaxUnanswered = 16
				primary := &switchableStore{Store: h.store}
				h.restartWith(primary, h.dispatcher)
				s, conn := h.start()
				var want []string
				for i := range sent {
					h.complete(h.commit(s), fmt.Sprint("sent", i))
					want = append(want, fmt.Sprintf("%d sent%d", i, i))
				}
				first, second, large, last := h.commit(s), h.commit(s), h.commit(s), h.commit(s)
				h.complete(second, "second")
				h.complete(large, strings.Repeat("x", 120<<10)) // it fills the cache
				h.complete(last, strings.Repeat("y", 30<<10))
				synctest.Wait()
				primary.Store = memstore.New(store.Timing{Presence: 15 * time.Second, Job: 30 * time.Second, Retention: time.Minute})
				h.complete(first, "first")
				for range 12 {
					time.Sleep(5 * time.Second)
					s.Keepalive()
				}
				synctest.Wait()
				got := conn.terminals()
				for i, text := range got {
					got[i] = text[:min(len(text), 12)]
				}
				want = append(want, fmt.Sprint(sent, " first"), fmt.Sprint(sent+1, " second"), fmt.Sprint(sent+2, " xxxxxxxxxx"), fmt.Sprint(sent+3, " INTERNAL"))
				for i, text := range want {
					want[i] = text[:min(len(text), 12)]
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				after := h.commit(s)
				h.complete(after, "after")
				s.End()
				time.Sleep(20 * time.Second)
				synctest.Wait()
				if m := conn.last(t, "session_ended"); m["results"] != float64(sent+4) || m["errors"] != 1.0 {
					t.Errorf("session_ended: %v", m)
				}
			})
		})
	}
}

// An utterance whose result was lost before it could be sent ends with an error, in its turn.
func TestLostResultsEndWithAnError(t *testing.T) {
	for name, lost := range map[string][2]int64{"in the middle": {3, 4}, "at the end": {5, 6}} {
		t.Run(name, func(t *testing.T) {
			run(t, func(h *harness) {
				h.cfg.MaxUnanswered = 16
				h.restartWith(&lossyStore{h.store, lost[0], lost[1]}, h.dispatcher)
				s, conn := h.start()
				for range 6 {
					h.commit(s)
					time.Sleep(time.Second)
				}
				jobs := h.dispatcher.jobs()
				h.complete(jobs[1], strings.Repeat("x", 120<<10)) // it fills the cache
				for _, id := range jobs[2:] {
					h.complete(id, strings.Repeat("y", 30<<10))
				}
				h.complete(jobs[0], "first")
				synctest.Wait()
				var got []string
				for i, m := range conn.received("result", "error") {
					if m["utterance_index"] != float64(i) || m["seq"] != float64(i+1) {
						t.Errorf("message %d: %v, %v", i, m["utterance_index"], m["seq"])
					}
					got = append(got, m["type"].(string))
				}
				want := []string{"result", "result", "result", "result", "result", "result"}
				want[lost[0]-1], want[lost[1]-1] = "error", "error"
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				s.End()
				synctest.Wait()
				if m := conn.last(t, "session_ended"); m["results"] != 4.0 || m["errors"] != 2.0 {
					t.Errorf("session_ended: %v", m)
				}
			})
		})
	}
}
