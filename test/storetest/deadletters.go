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

// deadLetterBehaviours is the specification of AbandonedInboxes, and Inboxes.DeadLetter.
var deadLetterBehaviours = []behaviour{
	{"a message becomes a dead letter once, and leaves the inbox", testDeadLetter},
	{"dead letters are listed with their reasons, the oldest first, after a position and up to a limit", testListDeadLetters},
	{"dead letters are discarded by id or all at once", testDiscardDeadLetters},
	{"dead letters expire", testDeadLettersExpire},
	{"the messages of an absent instance are fetched by another, and its inbox is removed", testFetchAbandoned},
	{"an instance that comes back does not fetch what another has fetched, unless it is not acknowledged", testFetchAfterFetchAbandoned},
	{"an instance that comes back after its inbox was removed has an inbox again", testAnnounceAfterRemoval},
	{"an absent instance is listed until its dead letters are discarded", testInstanceWithDeadLetters},
	{"a replayed message keeps its age, however it is read", testReplayKeepsAge},
	{"a dead letter that is not accepted by the inbox stays a dead letter", testReplayNotAccepted},
	{"of concurrent replays and discards of a dead letter one succeeds", testConcurrentReplays},
}

func testDeadLetter(t *testing.T, h *Harness) {
	h.announce(t, "i-1")
	for _, body := range []string{"a", "b", "c"} {
		h.post(t, "i-1", body)
	}
	messages := h.fetch(t, "i-1", 8)
	h.moveToDeadLetters(t, messages[0], "NOT_UNDERSTOOD")
	h.moveToDeadLetters(t, messages[2], "FAILED")
	if repeated := h.moveToDeadLetters(t, messages[2], "FAILED"); repeated != "" {
		t.Errorf("a second dead letter for the same message: %s", repeated)
	}
	if inst, _ := h.instance(t, "i-1"); inst.Inbox != 1 || inst.Pending != 1 || inst.DeadLetters != 2 {
		t.Errorf("after two became dead letters: %+v", inst)
	}
}

func testListDeadLetters(t *testing.T, h *Harness) {
	ids := h.twoDeadLetters(t)
	got := h.deadLetters(t, "i-1", "", 8)
	want := []store.DeadLetter{
		{Inbox: "i-1", Reason: "NOT_UNDERSTOOD", InboxMessage: store.InboxMessage{Body: []byte("a"), Deliveries: 1}},
		{Inbox: "i-1", Reason: "FAILED", InboxMessage: store.InboxMessage{Body: []byte("c"), Deliveries: 1}},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(store.InboxMessage{}, "ID", "Age")); diff != "" {
		t.Fatalf("dead letters (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(ids, []string{got[0].ID, got[1].ID}); diff != "" {
		t.Errorf("ids (-of DeadLetter +of DeadLetters):\n%s", diff)
	}
	if rest := h.deadLetters(t, "i-1", got[0].ID, 8); len(rest) != 1 || rest[0].ID != got[1].ID {
		t.Errorf("after the first: %+v", rest)
	}
	if first := h.deadLetters(t, "i-1", "", 1); len(first) != 1 || first[0].ID != got[0].ID {
		t.Errorf("with a limit of one: %+v", first)
	}
}

func testDiscardDeadLetters(t *testing.T, h *Harness) {
	ids := h.twoDeadLetters(t)
	for _, unknown := range []string{"abc", "", "-", "1-", "-1", "1-x"} {
		if n, err := h.Store.Discard(t.Context(), "i-1", unknown); err != nil || n != 0 {
			t.Errorf("discard %q: %d, %v", unknown, n, err)
		}
	}
	if n, err := h.Store.Discard(t.Context(), "i-1", ids[0]); err != nil || n != 1 {
		t.Errorf("discard one: %d, %v", n, err)
	}
	if n, err := h.Store.Discard(t.Context(), "i-1"); err != nil || n != 1 {
		t.Errorf("discard the rest: %d, %v", n, err)
	}
	if rest := h.deadLetters(t, "i-1", "", 8); len(rest) != 0 {
		t.Errorf("after that: %+v", rest)
	}
}

func testDeadLettersExpire(t *testing.T, h *Harness) {
	h.announce(t, "i-1")
	h.post(t, "i-1", "a")
	h.moveToDeadLetters(t, h.fetch(t, "i-1", 1)[0], "FAILED")
	h.Wait(h.Timing.Presence + h.Slack)
	if got := h.deadLetters(t, "i-1", "", 8); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

func testFetchAbandoned(t *testing.T, h *Harness) {
	h.announce(t, "i-1")
	h.post(t, "i-1", "fetched")
	h.fetch(t, "i-1", 1)
	h.post(t, "i-1", "never fetched")
	if left, err := h.Store.FetchAbandoned(t.Context(), "i-1", 8); err != nil || len(left) != 0 {
		t.Errorf("while it is present: %+v, %v", left, err)
	}
	if removed, err := h.Store.RemoveInbox(t.Context(), "i-1"); err != nil || removed {
		t.Errorf("the inbox of a present instance was removed: %v, %v", removed, err)
	}
	h.Wait(h.Timing.Presence + h.Slack)
	left, err := h.Store.FetchAbandoned(t.Context(), "i-1", 8)
	if err != nil {
		t.Fatal(err)
	}
	want := []store.InboxMessage{{Body: []byte("fetched"), Deliveries: 1}, {Body: []byte("never fetched")}}
	if diff := cmp.Diff(want, left, cmpopts.IgnoreFields(store.InboxMessage{}, "ID", "Age")); diff != "" {
		t.Errorf("its messages (-want +got):\n%s", diff)
	}
	if removed, err := h.Store.RemoveInbox(t.Context(), "i-1"); err != nil || !removed {
		t.Errorf("remove inbox: %v, %v", removed, err)
	}
	if inst, listed := h.instance(t, "i-1"); listed {
		t.Errorf("after the removal: %+v", inst)
	}
}

func testFetchAfterFetchAbandoned(t *testing.T, h *Harness) {
	h.announce(t, "i-1")
	h.post(t, "i-1", "a")
	h.post(t, "i-1", "b")
	h.Wait(h.Timing.Presence + h.Slack)
	for range 2 { // the reply to the first call may be lost
		left, err := h.Store.FetchAbandoned(t.Context(), "i-1", 1)
		if err != nil || len(left) != 1 || left[0].Deliveries != 0 {
			t.Fatalf("%+v, %v; want the message that was never fetched", left, err)
		}
	}
	h.announce(t, "i-1")
	got := h.fetch(t, "i-1", 8)
	if len(got) != 1 || string(got[0].Body) != "b" || got[0].Deliveries != 1 {
		t.Errorf("the instance that came back fetched %+v, want b", got)
	}
	h.Wait(2 * h.Slack)
	if got, err := h.Store.Pending(t.Context(), store.FetchParams{Inbox: "i-1", MinIdle: time.Hour, Limit: 8}); err != nil ||
		len(got) != 0 {
		t.Errorf("at once: %+v, %v", got, err)
	}
	unacknowledged, err := h.Store.Pending(t.Context(), store.FetchParams{Inbox: "i-1", MinIdle: h.Slack, Limit: 1})
	if err != nil || len(unacknowledged) != 1 || string(unacknowledged[0].Body) != "a" || unacknowledged[0].Deliveries != 1 && !h.Repeats {
		t.Errorf("after a while: %+v, %v; want a", unacknowledged, err)
	}
}

func testAnnounceAfterRemoval(t *testing.T, h *Harness) {
	h.announce(t, "i-1")
	h.Wait(h.Timing.Presence + h.Slack)
	if removed, err := h.Store.RemoveInbox(t.Context(), "i-1"); err != nil || !removed {
		t.Fatalf("remove inbox: %v, %v", removed, err)
	}
	if messages, err := h.Store.Fetch(t.Context(), store.FetchParams{Inbox: "i-1", Wait: time.Millisecond, Limit: 1}); len(messages) != 0 ||
		errors.Is(err, store.ErrDown) {
		t.Errorf("fetch without an inbox: %v, %v", messages, err)
	}
	h.announce(t, "i-1")
	h.post(t, "i-1", "x")
	if diff := cmp.Diff([]string{"x"}, bodies(h.fetch(t, "i-1", 8))); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

func testInstanceWithDeadLetters(t *testing.T, h *Harness) {
	h.announce(t, "i-1")
	h.post(t, "i-1", "a")
	if _, err := h.Store.DeadLetter(t.Context(),
		store.DeadLetterParams{Inbox: "i-1", Message: h.fetch(t, "i-1", 1)[0], Reason: "FAILED",
			Keep: h.Timing.Retention * 10}); err != nil {
		t.Fatal(err)
	}
	h.Wait(h.Timing.Presence + h.Slack)
	if removed, err := h.Store.RemoveInbox(t.Context(), "i-1"); err != nil || !removed {
		t.Fatalf("remove inbox: %v, %v", removed, err)
	}
	if inst, listed := h.instance(t, "i-1"); !listed || inst.Present || inst.HasInbox || inst.DeadLetters != 1 {
		t.Errorf("it is listed as %+v, %v", inst, listed)
	}
	if _, err := h.Store.Discard(t.Context(), "i-1"); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Store.RemoveInbox(t.Context(), "i-1"); err != nil {
		t.Fatal(err)
	}
	if inst, listed := h.instance(t, "i-1"); listed {
		t.Errorf("after its dead letters were discarded: %+v", inst)
	}
}

func testReplayKeepsAge(t *testing.T, h *Harness) {
	d := h.makeDeadLetter(t, "a")
	h.Wait(h.Timing.Presence)
	old := h.Timing.Presence
	if listed := h.deadLetters(t, "i-1", "", 100); len(listed) != 1 || listed[0].Age < old {
		t.Errorf("dead letters: %+v, want one that is %s old", listed, old)
	}
	for _, to := range []core.InstanceID{"i-1", "i-2"} {
		h.announce(t, to)
		if got := h.replay(t, d.ID, to); got != store.Accepted {
			t.Fatalf("replay to %s: %d", to, got)
		}
		if left := h.deadLetters(t, "i-1", "", 100); len(left) != 0 {
			t.Errorf("dead letters after the replay: %+v", left)
		}
		messages := h.fetch(t, to, 8)
		if len(messages) != 1 || string(messages[0].Body) != "a" || messages[0].Deliveries != 1 || messages[0].Age < old {
			t.Fatalf("fetched: %+v, want one that is %s old", messages, old)
		}
		pending, err := h.Store.Pending(t.Context(), store.FetchParams{Inbox: to, Limit: 8})
		if err != nil || len(pending) != 1 || pending[0].Age < old {
			t.Errorf("pending: %+v, %v", pending, err)
		}
		if to == "i-1" { // it becomes a dead letter again
			p := store.DeadLetterParams{Inbox: to, Message: messages[0], Reason: "FAILED", Keep: 20 * h.Timing.Presence}
			if d.ID, err = h.Store.DeadLetter(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
	}
	h.Wait(h.Timing.Presence + h.Slack)
	if left, err := h.Store.FetchAbandoned(t.Context(), "i-2", 8); err != nil || len(left) != 1 || left[0].Age < 2*old {
		t.Errorf("abandoned: %+v, %v", left, err)
	}
}

func testReplayNotAccepted(t *testing.T, h *Harness) {
	d := h.makeDeadLetter(t, "a")
	if got := h.replay(t, d.ID, "i-absent"); got != store.InstanceAbsent {
		t.Errorf("to an absent instance: %d", got)
	}
	h.announce(t, "i-2")
	for i := range 4 {
		h.post(t, "i-2", fmt.Sprint(i))
	}
	if got := h.replay(t, d.ID, "i-2"); got != store.InboxFull {
		t.Errorf("to a full inbox: %d", got)
	}
	for _, unknown := range []string{"abc", "", "-", "1-", "-1", "1-x", "1-1"} {
		if got := h.replay(t, unknown, "i-1"); got != store.NoDeadLetter {
			t.Errorf("the id %q: %d", unknown, got)
		}
	}
	h.announce(t, "i-1")
	if got := h.replay(t, d.ID, "i-1"); got != store.Accepted {
		t.Errorf("to an inbox that is not full: %d", got)
	}
	if got := h.replay(t, d.ID, "i-1"); got != store.NoDeadLetter {
		t.Errorf("the same replay again: %d", got)
	}
}

func testConcurrentReplays(t *testing.T, h *Harness) {
	for round := range 10 {
		d := h.makeDeadLetter(t, fmt.Sprint(round))
		var mu sync.Mutex
		replayed, discarded := 0, 0
		var all sync.WaitGroup
		for i := range 4 {
			to := core.InstanceID(fmt.Sprintf("i-to-%d", i))
			h.announce(t, to)
			all.Go(func() {
				posted, err := h.Store.Replay(t.Context(), store.ReplayParams{Inbox: "i-1", ID: d.ID, To: to, MaxMessages: 100})
				mu.Lock()
				defer mu.Unlock()
				if err != nil || posted != store.Accepted && posted != store.NoDeadLetter {
					t.Errorf("replay: %d, %v", posted, err)
				}
				if posted == store.Accepted {
					replayed++
				}
			})
			all.Go(func() {
				ids := []string{d.ID}
				if i == 0 {
					ids = nil
				}
				n, err := h.Store.Discard(t.Context(), "i-1", ids...)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Errorf("discard: %v", err)
				}
				discarded += n
			})
		}
		all.Wait()
		found := 0
		for i := range 4 {
			to := core.InstanceID(fmt.Sprintf("i-to-%d", i))
			messages, err := h.Store.Fetch(t.Context(), store.FetchParams{Inbox: to, Wait: time.Millisecond, Limit: 8})
			if err != nil {
				t.Fatal(err)
			}
			found += len(messages)
		}
		if replayed+discarded != 1 || found != replayed || len(h.deadLetters(t, "i-1", "", 100)) != 0 {
			t.Errorf("round %d: replayed %d times, discarded %d times, in inboxes %d, dead letters %+v", round, replayed, discarded, found,
				h.deadLetters(t, "i-1", "", 100))
		}
	}
}

// moveToDeadLetters makes a message of instance i-1 a dead letter and returns its id.
func (h *Harness) moveToDeadLetters(t *testing.T, m store.InboxMessage, reason string) string {
	t.Helper()
	id, err := h.Store.DeadLetter(t.Context(), store.DeadLetterParams{Inbox: "i-1", Message: m, Reason: reason, Keep: h.Timing.Presence})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// deadLetters lists dead letters of an inbox.
func (h *Harness) deadLetters(t *testing.T, inbox core.InstanceID, after string, limit int) []store.DeadLetter {
	t.Helper()
	list, err := h.Store.DeadLetters(t.Context(), inbox, after, limit)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// makeDeadLetter posts a message to instance i-1, makes it a dead letter, and returns it.
func (h *Harness) makeDeadLetter(t *testing.T, body string) store.DeadLetter {
	t.Helper()
	h.announce(t, "i-1")
	h.post(t, "i-1", body)
	messages := h.fetch(t, "i-1", 8)
	if len(messages) != 1 {
		t.Fatalf("fetched %+v, want one message", messages)
	}
	p := store.DeadLetterParams{Inbox: "i-1", Message: messages[0], Reason: "FAILED", Keep: 20 * h.Timing.Presence}
	id, err := h.Store.DeadLetter(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range h.deadLetters(t, "i-1", "", 100) {
		if d.ID == id {
			return d
		}
	}
	t.Fatalf("dead letter %s is not listed", id)
	panic("unreachable")
}

// replay replays a dead letter of instance i-1 to an inbox that holds at most four messages.
func (h *Harness) replay(t *testing.T, id string, to core.InstanceID) store.PostResult {
	t.Helper()
	posted, err := h.Store.Replay(t.Context(), store.ReplayParams{Inbox: "i-1", ID: id, To: to, MaxMessages: 4})
	if err != nil {
		t.Fatal(err)
	}
	return posted
}

// twoDeadLetters makes two of three messages of instance i-1 dead letters, and returns their ids.
func (h *Harness) twoDeadLetters(t *testing.T) []string {
	t.Helper()
	h.announce(t, "i-1")
	for _, body := range []string{"a", "b", "c"} {
		h.post(t, "i-1", body)
	}
	messages := h.fetch(t, "i-1", 8)
	return []string{h.moveToDeadLetters(t, messages[0], "NOT_UNDERSTOOD"), h.moveToDeadLetters(t, messages[2], "FAILED")}
}
