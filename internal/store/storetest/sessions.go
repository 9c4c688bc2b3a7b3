package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// room1 is the conversation of these tests.
var room1 = core.SessionRef{SessionKey: core.SessionKey{Tenant: "acme", Name: "room-1"}, Incarnation: "first"}

func exerciseSessions(_ *testing.T, run runner) {
	run("messages enter a session's stream in utterance order, each once", func(t *testing.T, h *Harness) {
		const n = 40
		append1 := func(i int64, body string) int64 {
			end, err := h.Store.Append(t.Context(), store.AppendParams{Session: room1, Index: i, Body: []byte(body), Keep: h.Timing.Retention})
			if err != nil {
				t.Errorf("append %d: %v", i, err)
			}
			return end.Seq
		}
		var wg sync.WaitGroup
		for _, i := range rand.Perm(n) {
			wg.Go(func() {
				append1(int64(i), fmt.Sprintf("m%d", i))
				append1(int64(i), "a second one for the same utterance")
			})
		}
		wg.Wait()
		if seq := append1(0, "late"); seq != n {
			t.Errorf("the stream ends at %d, want %d", seq, n)
		}
		var want []store.OutboxMessage
		for i := range int64(n) {
			want = append(want, store.OutboxMessage{Seq: i + 1, Index: i, Body: fmt.Appendf(nil, "m%d", i)})
		}
		for _, after := range []int64{0, 17, n} {
			got, err := h.Store.Read(t.Context(), store.ReadParams{Session: room1, After: after})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want[after:], append([]store.OutboxMessage{}, got...)); diff != "" {
				t.Errorf("read after %d (-want +got):\n%s", after, diff)
			}
		}
		got, err := h.Store.Read(t.Context(), store.ReadParams{Session: room1, After: 10, Limit: 3})
		if err != nil || len(got) != 3 || got[0].Seq != 11 {
			t.Errorf("a limited read: %v, %v", got, err)
		}
	})

	run("who appends a second message of an utterance is told that there is one", func(t *testing.T, h *Harness) {
		for _, step := range []struct {
			index int64
			body  string
			there bool
		}{{1, "first", false}, {1, "second", true}, {1, "first", true}, {0, "first", false}, {0, "second", true}, {1, "second", true}, {2, "first", false}} {
			p := store.AppendParams{Session: room1, Index: step.index, Body: []byte(step.body), Keep: h.Timing.Retention}
			if got, err := h.Store.Append(t.Context(), p); err != nil || got.Exists != (step.there || h.Repeats) || got.Refused {
				t.Errorf("%+v: %+v, %v", step, got, err)
			}
		}
	})

	run("a gap holds back what comes after it", func(t *testing.T, h *Harness) {
		put := func(i int64) int64 {
			end, err := h.Store.Append(t.Context(), store.AppendParams{Session: room1, Index: i, Body: []byte("x"), Keep: h.Timing.Retention})
			if err != nil {
				t.Fatal(err)
			}
			return end.Seq
		}
		for _, step := range []struct {
			index, want int64
			early       []int64
		}{{1, 0, []int64{1}}, {2, 0, []int64{1, 2}}, {0, 3, nil}, {4, 3, []int64{4}}, {3, 5, nil}} {
			if seq := put(step.index); seq != step.want {
				t.Errorf("after utterance %d the stream ends at %d, want %d", step.index, seq, step.want)
			}
			if early, err := h.Store.Waiting(t.Context(), room1); err != nil || !slices.Equal(early, step.early) {
				t.Errorf("after utterance %d these wait: %v, %v; want %v", step.index, early, err, step.early)
			}
		}
	})

	run("an outbox is forgotten after its last message", func(t *testing.T, h *Harness) {
		p := store.AppendParams{Session: room1, Body: []byte("x"), Keep: h.Timing.Presence}
		if _, err := h.Store.Append(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		h.Wait(h.Timing.Presence + h.Slack)
		if got, err := h.Store.Read(t.Context(), store.ReadParams{Session: room1}); err != nil || len(got) != 0 {
			t.Errorf("read: %v, %v", got, err)
		}
	})

	run("a long outbox keeps its last messages, and counts on", func(t *testing.T, h *Harness) {
		const n = 2600
		var end store.Appended
		for i := range int64(n) {
			var err error
			p := store.AppendParams{Session: room1, Index: i, Body: fmt.Appendf(nil, "m%d", i), Keep: h.Timing.Retention}
			if end, err = h.Store.Append(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
		if end.Seq != n {
			t.Errorf("the stream ends at %d, want %d", end.Seq, n)
		}
		got, err := h.Store.Read(t.Context(), store.ReadParams{Session: room1, After: n - 1000})
		if err != nil || len(got) != 1000 || got[0].Seq != n-999 || string(got[999].Body) != fmt.Sprintf("m%d", n-1) {
			t.Errorf("the last thousand: %d, %v", len(got), err)
		}
		if got, err = h.Store.Read(t.Context(), store.ReadParams{Session: room1}); err != nil || len(got) < 1000 || len(got) > n-200 {
			t.Errorf("%d messages are kept: %v", len(got), err)
		}
	})

	save := func(t *testing.T, h *Harness, owner core.InstanceID, epoch int64, change ...func(*store.SaveParams)) bool {
		t.Helper()
		p := store.SaveParams{
			Session: room1, Ownership: store.Ownership{Owner: owner, Epoch: epoch}, Body: fmt.Appendf(nil, "of %s", owner), Keep: h.Timing.Presence,
		}
		for _, c := range change {
			c(&p)
		}
		held, err := h.Store.SaveSession(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		return held
	}
	take := func(p *store.SaveParams) { p.TakeOver = true }
	over := func(p *store.SaveParams) { p.TakeOver, p.Expected = true, []byte("of i-0") }
	load := func(t *testing.T, h *Harness) store.SessionState {
		t.Helper()
		st, err := h.Store.LoadSession(t.Context(), room1.SessionKey)
		if err != nil {
			t.Fatal(err)
		}
		return st
	}

	run("a session's state is there until it expires, and is not a snapshot", func(t *testing.T, h *Harness) {
		if got := load(t, h); got.Epoch != 0 || got.Body != nil {
			t.Fatalf("a session that is not known: %+v", got)
		}
		if !save(t, h, "i-1", 1, take) || !save(t, h, "i-1", 1, func(p *store.SaveParams) { p.Body = []byte("two\nlines") }) {
			t.Fatal("its owner cannot save it")
		}
		want := store.SessionState{Ownership: store.Ownership{Owner: "i-1", Epoch: 1}, Incarnation: room1.Incarnation, Body: []byte("two\nlines")}
		if diff := cmp.Diff(want, load(t, h)); diff != "" {
			t.Errorf("what was saved last (-want +got):\n%s", diff)
		}
		if got, err := h.Store.LoadSnapshot(t.Context(), "room-1"); err != nil || got != nil {
			t.Errorf("a session's state is a snapshot: %q, %v", got, err)
		}
		h.Wait(h.Timing.Presence + h.Slack)
		if got := load(t, h); got.Epoch != 0 {
			t.Errorf("after its time: %+v", got)
		}
	})

	run("a session is begun once", func(t *testing.T, h *Harness) {
		if !save(t, h, "i-1", 1, take) {
			t.Fatal("the first cannot begin it")
		}
		if save(t, h, "i-2", 1, take) || save(t, h, "i-1", 1, take, func(p *store.SaveParams) { p.Body = []byte("another") }) {
			t.Error("another began it once more")
		}
		if got := load(t, h); got.Owner != "i-1" {
			t.Errorf("it is %s's", got.Owner)
		}
	})

	run("one of many that take a session over has it, and the last owner writes no more", func(t *testing.T, h *Harness) {
		if !save(t, h, "i-0", 1, take) {
			t.Fatal("it cannot be begun")
		}
		held := make([]bool, 8)
		var wg sync.WaitGroup
		for i := range held {
			wg.Go(func() { held[i] = save(t, h, core.InstanceID(fmt.Sprintf("i-%d", i+1)), 2, over) })
		}
		wg.Wait()
		now := load(t, h)
		for i, is := range held {
			if id := core.InstanceID(fmt.Sprintf("i-%d", i+1)); is != (id == now.Owner) {
				t.Errorf("%s was told %v; it is %s's", id, is, now.Owner)
			}
		}
		if save(t, h, "i-0", 1) || save(t, h, "i-0", 2) || save(t, h, "i-0", 1, take) {
			t.Error("the last owner writes")
		}
		if diff := cmp.Diff(now, load(t, h)); diff != "" {
			t.Errorf("it has changed (-was +is):\n%s", diff)
		}
	})

	run("only the owner adds what is the owner's to say", func(t *testing.T, h *Harness) {
		put := func(index int64, by store.Ownership) store.Appended {
			t.Helper()
			a, err := h.Store.Append(t.Context(), store.AppendParams{Session: room1, Index: index, Body: []byte("x"), Keep: h.Timing.Retention, By: by})
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		first, second := store.Ownership{Owner: "i-1", Epoch: 1}, store.Ownership{Owner: "i-2", Epoch: 2}
		if a := put(0, store.Ownership{}); a.Seq != 1 || a.Refused || a.Owner != "" {
			t.Errorf("of a session nobody has: %+v", a)
		}
		save(t, h, "i-1", 1, take)
		if a := put(1, first); a.Seq != 2 || a.Refused || a.Owner != "i-1" {
			t.Errorf("by its owner: %+v", a)
		}
		if !save(t, h, "i-2", 2, func(p *store.SaveParams) { p.TakeOver, p.Expected = true, []byte("of i-1") }) {
			t.Fatal("it cannot be taken over")
		}
		if a := put(2, first); a.Seq != 2 || !a.Refused || a.Owner != "i-2" {
			t.Errorf("by the last owner: %+v", a)
		}
		if a := put(2, store.Ownership{}); a.Seq != 3 || a.Refused || a.Owner != "i-2" {
			t.Errorf("by a job's record: %+v", a)
		}
		if a := put(3, second); a.Seq != 4 || a.Refused {
			t.Errorf("by its owner: %+v", a)
		}
	})

	run("an outbox lives as long as its session is saved, and counts on when it was forgotten", func(t *testing.T, h *Harness) {
		put := func(index int64) int64 {
			t.Helper()
			a, err := h.Store.Append(t.Context(), store.AppendParams{Session: room1, Index: index, Body: []byte("x"), Keep: h.Timing.Presence})
			if err != nil {
				t.Fatal(err)
			}
			return a.Seq
		}
		save(t, h, "i-1", 1, take)
		put(0)
		for range 3 {
			h.Wait(h.Timing.Presence * 2 / 3)
			if !save(t, h, "i-1", 1, func(p *store.SaveParams) { p.Known = 1 }) {
				t.Fatal("its owner cannot save it")
			}
		}
		if seq := put(1); seq != 2 {
			t.Errorf("the stream ends at %d, want 2", seq)
		}
		h.Wait(h.Timing.Presence + h.Slack)
		if !save(t, h, "i-1", 1, func(p *store.SaveParams) { p.Known = 2 }) {
			t.Fatal("the store has forgotten the session and does not take its owner's word")
		}
		if seq := put(2); seq != 3 {
			t.Errorf("the stream ends at %d, want 3", seq)
		}
		got, err := h.Store.Read(t.Context(), store.ReadParams{Session: room1, After: 1})
		if err != nil || len(got) != 1 || got[0].Seq != 3 {
			t.Errorf("what is left: %+v, %v", got, err)
		}
	})

	run("a session is taken over as it was read", func(t *testing.T, h *Harness) {
		save(t, h, "i-0", 1, take)
		save(t, h, "i-0", 1, func(p *store.SaveParams) { p.Body = []byte("newer") })
		if save(t, h, "i-1", 2, over) {
			t.Error("an old state was taken over, and the newer one is lost")
		}
		if !save(t, h, "i-1", 2, func(p *store.SaveParams) { p.TakeOver, p.Expected = true, []byte("newer") }) {
			t.Error("it cannot be taken over")
		}
	})

	run("a store that has forgotten its last moments takes the word of whoever has the session", func(t *testing.T, h *Harness) {
		put := func(index int64, by store.Ownership) store.Appended {
			t.Helper()
			a, err := h.Store.Append(t.Context(), store.AppendParams{Session: room1, Index: index, Body: []byte("x"), Keep: h.Timing.Retention, By: by})
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		save(t, h, "i-0", 1, take)
		put(0, store.Ownership{})
		// Of this, nothing came to the replica that is the primary now: the takeover, and the second message.
		owner := store.Ownership{Owner: "i-1", Epoch: 2}
		if a := put(3, owner); a.Refused || a.Seq != 1 {
			t.Errorf("the owner's message: %+v", a)
		}
		if !save(t, h, "i-1", 2, func(p *store.SaveParams) { p.Known = 3 }) {
			t.Error("its owner is turned out")
		}
		if save(t, h, "i-0", 1) {
			t.Error("the last owner writes")
		}
		if a := put(4, store.Ownership{}); a.Seq != 5 {
			t.Errorf("what waited does not go on: %+v", a)
		}
		got, err := h.Store.Read(t.Context(), store.ReadParams{Session: room1, After: 1})
		if err != nil || len(got) != 2 || got[0].Seq != 4 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}
