package storetest

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// exerciseIncarnations checks that a session's name is not its identity, and that an outbox is bounded.
func exerciseIncarnations(_ *testing.T, run runner) {
	second := core.SessionRef{SessionKey: room1.SessionKey, Incarnation: "second"}
	foreign := core.SessionRef{SessionKey: core.SessionKey{Tenant: "beta", Name: room1.Name}, Incarnation: room1.Incarnation}
	start := func(t *testing.T, h *Harness, session core.SessionRef) bool {
		t.Helper()
		held, err := h.Store.SaveSession(t.Context(), store.SaveParams{
			Session: session, Ownership: store.Ownership{Owner: "i-1", Epoch: 1}, TakeOver: true, Body: []byte(session.String()), Keep: h.Timing.Presence,
		})
		if err != nil {
			t.Fatal(err)
		}
		return held
	}
	put := func(t *testing.T, h *Harness, p store.AppendParams) store.Appended {
		t.Helper()
		p.Keep = h.Timing.Retention
		a, err := h.Store.Append(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	seqs := func(t *testing.T, h *Harness, session core.SessionRef) (list []int64) {
		t.Helper()
		messages, err := h.Store.Read(t.Context(), store.ReadParams{Session: session})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			list = append(list, m.Seq)
		}
		return list
	}

	run("a session's name belongs to its tenant", func(t *testing.T, h *Harness) {
		if !start(t, h, room1) || !start(t, h, foreign) {
			t.Fatal("two tenants cannot use the same name")
		}
		put(t, h, store.AppendParams{Session: room1, Body: []byte("of acme")})
		if got := seqs(t, h, foreign); got != nil {
			t.Errorf("the other tenant reads %v", got)
		}
		st, err := h.Store.LoadSession(t.Context(), foreign.SessionKey)
		if err != nil || string(st.Body) != foreign.String() {
			t.Errorf("the other tenant's state is %q, %v", st.Body, err)
		}
	})

	run("a name that is used again finds nothing of the earlier conversation", func(t *testing.T, h *Harness) {
		start(t, h, room1)
		put(t, h, store.AppendParams{Session: room1, Index: 1, Body: []byte("early")})
		h.Wait(h.Timing.Presence + h.Slack) // the state expires; the outbox, written later or for longer, does not
		if a := put(t, h, store.AppendParams{Session: room1, Index: 0, Body: []byte("late")}); a.Refused || a.Seq != 2 {
			t.Errorf("a late result of a session that nobody uses: %+v", a)
		}
		if !start(t, h, second) {
			t.Fatal("the name cannot be used again")
		}
		if got := seqs(t, h, second); got != nil {
			t.Errorf("the second conversation reads %v of the first", got)
		}
		if early, err := h.Store.Waiting(t.Context(), second); err != nil || len(early) > 0 {
			t.Errorf("the second conversation has early messages %v, %v", early, err)
		}
		if a := put(t, h, store.AppendParams{Session: room1, Index: 2, Body: []byte("later")}); !a.Refused || a.Owner != "" {
			t.Errorf("a result of a superseded incarnation: %+v", a)
		}
		if a := put(t, h, store.AppendParams{Session: second, Index: 0, Body: []byte("its own")}); a.Refused || a.Seq != 1 || a.Owner != "i-1" {
			t.Errorf("a result of the second conversation: %+v", a)
		}
	})

	run("the owner of an earlier incarnation cannot write, whatever its epoch", func(t *testing.T, h *Harness) {
		start(t, h, second)
		for _, take := range []bool{false, true} {
			held, err := h.Store.SaveSession(t.Context(), store.SaveParams{
				Session: room1, Ownership: store.Ownership{Owner: "i-9", Epoch: 2}, TakeOver: take, Expected: []byte(second.String()), Body: []byte("stale"), Keep: h.Timing.Presence,
			})
			if err != nil || held {
				t.Errorf("take %v: held %v, %v", take, held, err)
			}
		}
		st, err := h.Store.LoadSession(t.Context(), second.SessionKey)
		if err != nil || st.Incarnation != second.Incarnation || string(st.Body) != second.String() {
			t.Errorf("the state is now %+v, %v", st, err)
		}
	})

	run("what the client has acknowledged is dropped, and the count goes on", func(t *testing.T, h *Harness) {
		start(t, h, room1)
		for i := range int64(5) {
			put(t, h, store.AppendParams{Session: room1, Index: i, Body: []byte("x")})
		}
		ack := func(seq int64) {
			t.Helper()
			held, err := h.Store.SaveSession(t.Context(), store.SaveParams{
				Session: room1, Ownership: store.Ownership{Owner: "i-1", Epoch: 1}, Body: []byte("x"), Known: 5, Acked: seq, Keep: h.Timing.Presence,
			})
			if err != nil || !held {
				t.Fatalf("held %v, %v", held, err)
			}
		}
		ack(3)
		ack(2) // an older acknowledgement changes nothing
		if got := fmt.Sprint(seqs(t, h, room1)); got != "[4 5]" {
			t.Errorf("after an acknowledgement of 3 there are %s", got)
		}
		ack(5)
		if got := seqs(t, h, room1); got != nil {
			t.Errorf("after an acknowledgement of all there are %v", got)
		}
		if a := put(t, h, store.AppendParams{Session: room1, Index: 5, Body: []byte("x")}); a.Seq != 6 {
			t.Errorf("the next message: %+v", a)
		}
		if a := put(t, h, store.AppendParams{Session: room1, Index: 2, Body: []byte("again")}); a.Seq != 6 || !a.Exists {
			t.Errorf("a repeated one that was acknowledged: %+v", a)
		}
		if got := fmt.Sprint(seqs(t, h, room1)); got != "[6]" {
			t.Errorf("then there are %s", got)
		}
	})

	run("an outbox holds so many bytes, and drops the oldest for a new one", func(t *testing.T, h *Harness) {
		body := bytes.Repeat([]byte("x"), 1000)
		for i := range int64(10) {
			a := put(t, h, store.AppendParams{Session: room1, Index: i, Body: body, MaxBytes: 3500})
			if a.Seq != i+1 {
				t.Errorf("append %d: %+v", i, a)
			}
		}
		if got := fmt.Sprint(seqs(t, h, room1)); got != "[8 9 10]" {
			t.Errorf("of ten there are %s", got)
		}
		put(t, h, store.AppendParams{Session: room1, Index: 10, Body: bytes.Repeat(body, 5), MaxBytes: 3500})
		if got := fmt.Sprint(seqs(t, h, room1)); got != "[11]" {
			t.Errorf("one that is larger than the bound stands alone: %s", got)
		}
		put(t, h, store.AppendParams{Session: room1, Index: 11, Body: body, MaxBytes: 3500})
		if got := fmt.Sprint(seqs(t, h, room1)); got != "[12]" {
			t.Errorf("after it there are %s", got)
		}
	})

	run("messages that enter an outbox together stay until the next one", func(t *testing.T, h *Harness) {
		body := bytes.Repeat([]byte("x"), 1000)
		put(t, h, store.AppendParams{Session: room1, Index: 0, Body: body, MaxBytes: 3500})
		for i := range int64(6) {
			put(t, h, store.AppendParams{Session: room1, Index: 7 - i, Body: body, MaxBytes: 3500})
		}
		put(t, h, store.AppendParams{Session: room1, Index: 1, Body: body, MaxBytes: 3500})
		if got := fmt.Sprint(seqs(t, h, room1)); got != "[2 3 4 5 6 7 8]" {
			t.Errorf("when the second lets in those that waited for it, there are %s", got)
		}
		if a := put(t, h, store.AppendParams{Session: room1, Index: 1, Body: body, MaxBytes: 3500}); !a.Exists {
			t.Errorf("the second once more: %+v", a)
		}
		if got := fmt.Sprint(seqs(t, h, room1)); got != "[2 3 4 5 6 7 8]" {
			t.Errorf("when that is repeated, there are %s", got)
		}
		put(t, h, store.AppendParams{Session: room1, Index: 8, Body: body, MaxBytes: 3500})
		if got := fmt.Sprint(seqs(t, h, room1)); got != "[7 8 9]" {
			t.Errorf("after the next one there are %s", got)
		}
	})
}
