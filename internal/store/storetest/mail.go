package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// post is a letter to an instance whose inbox holds at most four.
func (h *Harness) post(t *testing.T, to core.InstanceID, body string) store.PostResult {
	t.Helper()
	posted, err := h.Store.Post(t.Context(), store.PostParams{To: to, Body: []byte(body), MaxMessages: 4})
	if err != nil {
		t.Fatal(err)
	}
	return posted
}

func (h *Harness) announce(t *testing.T, id core.InstanceID) {
	t.Helper()
	if err := h.Store.Announce(t.Context(), store.AnnounceParams{ID: id, Body: []byte("I am " + id), TTL: h.Timing.Presence}); err != nil {
		t.Fatal(err)
	}
}

// fetch takes the letters that have come.
func (h *Harness) fetch(t *testing.T, inbox core.InstanceID, limit int) []store.InboxMessage {
	t.Helper()
	letters, err := h.Store.Fetch(t.Context(), store.FetchParams{Inbox: inbox, Wait: time.Millisecond, Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	return letters
}

// bodies are what is written in letters.
func bodies(letters []store.InboxMessage) []string {
	list := []string{}
	for _, l := range letters {
		list = append(list, string(l.Body))
	}
	return list
}

// instance finds one in the list of those there are.
func (h *Harness) instance(t *testing.T, id core.InstanceID) (store.Instance, bool) {
	t.Helper()
	all, err := h.Store.Instances(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		if one.ID == id {
			return one, true
		}
	}
	return store.Instance{}, false
}

func exerciseMail(t *testing.T, run runner) {
	exercisePresence(t, run)
	exerciseLetters(t, run)
	exerciseDead(t, run)
	exerciseReplay(t, run)
}

func exercisePresence(_ *testing.T, run runner) {
	run("an instance is present for as long as it says so", func(t *testing.T, h *Harness) {
		if _, there := h.instance(t, "i-1"); there {
			t.Error("it is there before it came")
		}
		h.announce(t, "i-1")
		h.announce(t, "i-2")
		for range 2 {
			h.Wait(h.Timing.Presence * 2 / 3)
			h.announce(t, "i-1")
		}
		one, _ := h.instance(t, "i-1")
		if diff := cmp.Diff(store.Instance{ID: "i-1", Present: true, HasInbox: true, Body: []byte("I am i-1")}, one); diff != "" {
			t.Errorf("the one that renews (-want +got):\n%s", diff)
		}
		if two, _ := h.instance(t, "i-2"); two.Present || two.Body != nil {
			t.Errorf("the one that does not: %+v", two)
		}
		if err := h.Store.Withdraw(t.Context(), "i-1"); err != nil {
			t.Fatal(err)
		}
		if one, _ := h.instance(t, "i-1"); one.Present {
			t.Error("it is present after it left")
		}
	})

	run("nobody writes to one that is not there", func(t *testing.T, h *Harness) {
		if got := h.post(t, "i-1", "x"); got != store.InstanceAbsent {
			t.Errorf("before it came: %d", got)
		}
		h.announce(t, "i-1")
		if got := h.post(t, "i-1", "x"); got != store.Accepted {
			t.Errorf("while it is there: %d", got)
		}
		h.Wait(h.Timing.Presence + h.Slack)
		if got := h.post(t, "i-1", "x"); got != store.InstanceAbsent {
			t.Errorf("after it fell silent: %d", got)
		}
	})
}

func exerciseLetters(_ *testing.T, run runner) {
	run("letters come in their order and stay until they are settled", func(t *testing.T, h *Harness) {
		h.announce(t, "i-1")
		for i := range 4 {
			if got := h.post(t, "i-1", fmt.Sprint(i)); got != store.Accepted {
				t.Fatalf("letter %d: %d", i, got)
			}
		}
		if got := h.post(t, "i-1", "4"); got != store.InboxFull {
			t.Errorf("one too many: %d", got)
		}
		first := h.fetch(t, "i-1", 3)
		if diff := cmp.Diff([]string{"0", "1", "2"}, bodies(first)); diff != "" {
			t.Errorf("the first (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"3"}, bodies(h.fetch(t, "i-1", 3))); diff != "" {
			t.Errorf("the rest (-want +got):\n%s", diff)
		}
		if one, _ := h.instance(t, "i-1"); one.Inbox != 4 || one.Pending != 4 {
			t.Errorf("fetched and not settled: %+v", one)
		}
		if got := h.post(t, "i-1", "4"); got != store.InboxFull {
			t.Errorf("fetched ones take no room: %d", got)
		}
		if err := h.Store.Acknowledge(t.Context(), "i-1", first[0].ID, first[2].ID); err != nil {
			t.Fatal(err)
		}
		if one, _ := h.instance(t, "i-1"); one.Inbox != 2 || one.Pending != 2 {
			t.Errorf("after two were settled: %+v", one)
		}
		if got := h.post(t, "i-1", "4"); got != store.Accepted {
			t.Errorf("after two were settled: %d", got)
		}
	})

	run("a letter that is not settled comes again", func(t *testing.T, h *Harness) {
		h.announce(t, "i-1")
		h.post(t, "i-1", "a")
		h.post(t, "i-1", "b")
		got := h.fetch(t, "i-1", 1)
		again := store.FetchParams{Inbox: "i-1", MinIdle: h.Timing.Presence / 2, Limit: 8}
		if soon, err := h.Store.Pending(t.Context(), again); err != nil || len(soon) != 0 {
			t.Errorf("at once: %v, %v", soon, err)
		}
		for n := 2; n <= 3; n++ {
			h.Wait(h.Timing.Presence*2/3 + h.Slack)
			letters, err := h.Store.Pending(t.Context(), again)
			if err != nil || len(letters) != 1 || letters[0].ID != got[0].ID || string(letters[0].Body) != "a" || letters[0].Deliveries != n {
				t.Errorf("delivery %d: %+v, %v", n, letters, err)
			}
			if len(letters) == 1 && letters[0].Age < h.Timing.Presence*2/3 {
				t.Errorf("it is %s old", letters[0].Age)
			}
		}
	})

	run("whoever waits for a letter has it when it comes", func(t *testing.T, h *Harness) {
		h.announce(t, "i-1")
		got := make(chan []store.InboxMessage)
		go func() {
			for {
				letters, err := h.Store.Fetch(t.Context(), store.FetchParams{Inbox: "i-1", Wait: h.Timing.Presence / 2, Limit: 8})
				if err != nil || len(letters) > 0 {
					got <- letters
					return
				}
			}
		}()
		h.post(t, "i-1", "x")
		if diff := cmp.Diff([]string{"x"}, bodies(<-got)); diff != "" {
			t.Errorf("letters (-want +got):\n%s", diff)
		}
	})

	run("every letter comes once to whoever fetches, however many write", func(t *testing.T, h *Harness) {
		h.announce(t, "i-1")
		const writers, each = 4, 25
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for i := range each {
					p := store.PostParams{To: "i-1", Body: fmt.Appendf(nil, "%d.%d", w, i), MaxMessages: writers * each}
					if got, err := h.Store.Post(t.Context(), p); err != nil || got != store.Accepted {
						t.Errorf("%s: %d, %v", p.Body, got, err)
					}
				}
			})
		}
		seen := make(map[string]int)
		for len(seen) < writers*each {
			letters := h.fetch(t, "i-1", 16)
			for _, l := range letters {
				seen[string(l.Body)]++
				if err := h.Store.Acknowledge(t.Context(), "i-1", l.ID); err != nil {
					t.Fatal(err)
				}
			}
		}
		wg.Wait()
		for body, n := range seen {
			if n != 1 {
				t.Errorf("%s came %d times", body, n)
			}
		}
		if one, _ := h.instance(t, "i-1"); one.Inbox != 0 || one.Pending != 0 {
			t.Errorf("in the end: %+v", one)
		}
	})

	run("a letter that is too late is not posted", func(t *testing.T, h *Harness) {
		h.announce(t, "i-1")
		if _, err := h.Store.Post(late(t), store.PostParams{To: "i-1", Body: []byte("x"), MaxMessages: 4}); err == nil {
			t.Error("it was posted")
		}
		if one, _ := h.instance(t, "i-1"); one.Inbox != 0 {
			t.Errorf("it is there: %+v", one)
		}
	})
}

func exerciseDead(_ *testing.T, run runner) {
	dead := func(t *testing.T, h *Harness, inbox core.InstanceID, after string, limit int) []store.DeadLetter {
		t.Helper()
		list, err := h.Store.DeadLetters(t.Context(), inbox, after, limit)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	condemn := func(t *testing.T, h *Harness, l store.InboxMessage, reason string) string {
		t.Helper()
		id, err := h.Store.DeadLetter(t.Context(), store.DeadLetterParams{Inbox: "i-1", Message: l, Reason: reason, Keep: h.Timing.Presence})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}

	run("a dead letter leaves the inbox and is kept apart", func(t *testing.T, h *Harness) {
		h.announce(t, "i-1")
		for _, body := range []string{"a", "b", "c"} {
			h.post(t, "i-1", body)
		}
		letters := h.fetch(t, "i-1", 8)
		ids := []string{condemn(t, h, letters[0], "NOT_UNDERSTOOD"), condemn(t, h, letters[2], "FAILED")}
		if again := condemn(t, h, letters[2], "FAILED"); again != "" {
			t.Errorf("one that is dead died again, as %s", again)
		}
		if one, _ := h.instance(t, "i-1"); one.Inbox != 1 || one.Pending != 1 || one.DeadLetters != 2 {
			t.Errorf("after two died: %+v", one)
		}
		got := dead(t, h, "i-1", "", 8)
		want := []store.DeadLetter{
			{Inbox: "i-1", Reason: "NOT_UNDERSTOOD", InboxMessage: store.InboxMessage{Body: []byte("a"), Deliveries: 1}},
			{Inbox: "i-1", Reason: "FAILED", InboxMessage: store.InboxMessage{Body: []byte("c"), Deliveries: 1}},
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(store.InboxMessage{}, "ID", "Age")); diff != "" {
			t.Fatalf("dead letters (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(ids, []string{got[0].ID, got[1].ID}); diff != "" {
			t.Errorf("what they are called (-when they died +now):\n%s", diff)
		}
		if rest := dead(t, h, "i-1", got[0].ID, 8); len(rest) != 1 || rest[0].ID != got[1].ID {
			t.Errorf("after the first: %+v", rest)
		}
		if some := dead(t, h, "i-1", "", 1); len(some) != 1 || some[0].ID != got[0].ID {
			t.Errorf("one of them: %+v", some)
		}
		for _, none := range []string{"abc", "", "-", "1-", "-1", "1-x"} {
			if n, err := h.Store.Discard(t.Context(), "i-1", none); err != nil || n != 0 {
				t.Errorf("discard %q: %d, %v", none, n, err)
			}
		}
		if n, err := h.Store.Discard(t.Context(), "i-1", got[0].ID); err != nil || n != 1 {
			t.Errorf("discard one: %d, %v", n, err)
		}
		if n, err := h.Store.Discard(t.Context(), "i-1"); err != nil || n != 1 {
			t.Errorf("discard the rest: %d, %v", n, err)
		}
		if rest := dead(t, h, "i-1", "", 8); len(rest) != 0 {
			t.Errorf("after that: %+v", rest)
		}
	})

	run("dead letters are forgotten after their time", func(t *testing.T, h *Harness) {
		h.announce(t, "i-1")
		h.post(t, "i-1", "a")
		condemn(t, h, h.fetch(t, "i-1", 1)[0], "FAILED")
		h.Wait(h.Timing.Presence + h.Slack)
		if got := dead(t, h, "i-1", "", 8); len(got) != 0 {
			t.Errorf("%+v", got)
		}
	})

	run("what one that is gone has left is read by others, and buried", func(t *testing.T, h *Harness) {
		h.announce(t, "i-1")
		h.post(t, "i-1", "fetched")
		h.fetch(t, "i-1", 1)
		h.post(t, "i-1", "never fetched")
		if left, err := h.Store.FetchAbandoned(t.Context(), "i-1", 8); err != nil || len(left) != 0 {
			t.Errorf("while it is there: %+v, %v", left, err)
		}
		if gone, err := h.Store.RemoveInbox(t.Context(), "i-1"); err != nil || gone {
			t.Errorf("buried alive: %v, %v", gone, err)
		}
		h.Wait(h.Timing.Presence + h.Slack)
		left, err := h.Store.FetchAbandoned(t.Context(), "i-1", 8)
		if err != nil {
			t.Fatal(err)
		}
		want := []store.InboxMessage{{Body: []byte("fetched"), Deliveries: 1}, {Body: []byte("never fetched")}}
		if diff := cmp.Diff(want, left, cmpopts.IgnoreFields(store.InboxMessage{}, "ID", "Age")); diff != "" {
			t.Errorf("its letters (-want +got):\n%s", diff)
		}
		if gone, err := h.Store.RemoveInbox(t.Context(), "i-1"); err != nil || !gone {
			t.Errorf("bury: %v, %v", gone, err)
		}
		if one, there := h.instance(t, "i-1"); there {
			t.Errorf("after that: %+v", one)
		}
	})

	run("what was taken in hand is not fetched by one that wakes up, unless it was left lying", func(t *testing.T, h *Harness) {
		h.announce(t, "i-1")
		h.post(t, "i-1", "a")
		h.post(t, "i-1", "b")
		h.Wait(h.Timing.Presence + h.Slack)
		for range 2 { // the answer to the first may be lost
			left, err := h.Store.FetchAbandoned(t.Context(), "i-1", 1)
			if err != nil || len(left) != 1 || left[0].Deliveries != 0 {
				t.Fatalf("%+v, %v; want the one letter that was never fetched", left, err)
			}
		}
		h.announce(t, "i-1")
		got := h.fetch(t, "i-1", 8)
		if len(got) != 1 || string(got[0].Body) != "b" || got[0].Deliveries != 1 {
			t.Errorf("who wakes up fetched %+v, want b", got)
		}
		h.Wait(2 * h.Slack)
		if got, err := h.Store.Pending(t.Context(), store.FetchParams{Inbox: "i-1", MinIdle: time.Hour, Limit: 8}); err != nil || len(got) != 0 {
			t.Errorf("at once: %+v, %v", got, err)
		}
		lying, err := h.Store.Pending(t.Context(), store.FetchParams{Inbox: "i-1", MinIdle: h.Slack, Limit: 1})
		if err != nil || len(lying) != 1 || string(lying[0].Body) != "a" || lying[0].Deliveries != 1 && !h.Repeats {
			t.Errorf("after a while: %+v, %v; want a", lying, err)
		}
	})

	run("one that comes back after its burial has an inbox again", func(t *testing.T, h *Harness) {
		h.announce(t, "i-1")
		h.Wait(h.Timing.Presence + h.Slack)
		if gone, err := h.Store.RemoveInbox(t.Context(), "i-1"); err != nil || !gone {
			t.Fatalf("bury: %v, %v", gone, err)
		}
		if letters, err := h.Store.Fetch(t.Context(), store.FetchParams{Inbox: "i-1", Wait: time.Millisecond, Limit: 1}); len(letters) != 0 || errors.Is(err, store.ErrDown) {
			t.Errorf("fetch without an inbox: %v, %v", letters, err)
		}
		h.announce(t, "i-1")
		h.post(t, "i-1", "x")
		if diff := cmp.Diff([]string{"x"}, bodies(h.fetch(t, "i-1", 8))); diff != "" {
			t.Errorf("letters (-want +got):\n%s", diff)
		}
	})

	run("the name of one with dead letters stays", func(t *testing.T, h *Harness) {
		h.announce(t, "i-1")
		h.post(t, "i-1", "a")
		if _, err := h.Store.DeadLetter(t.Context(), store.DeadLetterParams{Inbox: "i-1", Message: h.fetch(t, "i-1", 1)[0], Reason: "FAILED", Keep: h.Timing.Retention * 10}); err != nil {
			t.Fatal(err)
		}
		h.Wait(h.Timing.Presence + h.Slack)
		if gone, err := h.Store.RemoveInbox(t.Context(), "i-1"); err != nil || !gone {
			t.Fatalf("bury: %v, %v", gone, err)
		}
		if one, there := h.instance(t, "i-1"); !there || one.Present || one.HasInbox || one.DeadLetters != 1 {
			t.Errorf("it is %+v, %v", one, there)
		}
		if _, err := h.Store.Discard(t.Context(), "i-1"); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Store.RemoveInbox(t.Context(), "i-1"); err != nil {
			t.Fatal(err)
		}
		if one, there := h.instance(t, "i-1"); there {
			t.Errorf("when they are gone: %+v", one)
		}
	})
}
