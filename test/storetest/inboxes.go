package storetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// inboxBehaviours is the specification of Inboxes.
var inboxBehaviours = []behaviour{
	{"a message to an absent instance is not accepted", testPostToAbsentInstance},
	{"messages are fetched in order and stay in the inbox until they are acknowledged", testFetchInOrder},
	{"a message that is not acknowledged is delivered again, with a higher count", testPendingMessages},
	{"a fetch that waits returns a message when it arrives", testFetchWaits},
	{"of concurrent posts every message is fetched once", testConcurrentPosts},
	{"a post past its deadline appends nothing", testLatePost},
}

func testPostToAbsentInstance(t *testing.T, h *Harness) {
	if got := h.post(t, "i-1", "x"); got != store.InstanceAbsent {
		t.Errorf("before its announcement: %d", got)
	}
	h.announce(t, "i-1")
	if got := h.post(t, "i-1", "x"); got != store.Accepted {
		t.Errorf("while it is present: %d", got)
	}
	h.Wait(h.Timing.Presence + h.Slack)
	if got := h.post(t, "i-1", "x"); got != store.InstanceAbsent {
		t.Errorf("after its presence expired: %d", got)
	}
}

func testFetchInOrder(t *testing.T, h *Harness) {
	h.announce(t, "i-1")
	for i := range 4 {
		if got := h.post(t, "i-1", fmt.Sprint(i)); got != store.Accepted {
			t.Fatalf("message %d: %d", i, got)
		}
	}
	if got := h.post(t, "i-1", "4"); got != store.InboxFull {
		t.Errorf("one message too many: %d", got)
	}
	first := h.fetch(t, "i-1", 3)
	if diff := cmp.Diff([]string{"0", "1", "2"}, bodies(first)); diff != "" {
		t.Errorf("first fetch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"3"}, bodies(h.fetch(t, "i-1", 3))); diff != "" {
		t.Errorf("second fetch (-want +got):\n%s", diff)
	}
	if inst, _ := h.instance(t, "i-1"); inst.Inbox != 4 || inst.Pending != 4 {
		t.Errorf("fetched and not acknowledged: %+v", inst)
	}
	if got := h.post(t, "i-1", "4"); got != store.InboxFull {
		t.Errorf("post to an inbox full of pending messages: %d", got)
	}
	if err := h.Store.Acknowledge(t.Context(), "i-1", first[0].ID, first[2].ID); err != nil {
		t.Fatal(err)
	}
	if inst, _ := h.instance(t, "i-1"); inst.Inbox != 2 || inst.Pending != 2 {
		t.Errorf("after two were acknowledged: %+v", inst)
	}
	if got := h.post(t, "i-1", "4"); got != store.Accepted {
		t.Errorf("post after two were acknowledged: %d", got)
	}
}

func testPendingMessages(t *testing.T, h *Harness) {
	h.announce(t, "i-1")
	h.post(t, "i-1", "a")
	h.post(t, "i-1", "b")
	got := h.fetch(t, "i-1", 1)
	idle := store.FetchParams{Inbox: "i-1", MinIdle: h.Timing.Presence / 2, Limit: 8}
	if early, err := h.Store.Pending(t.Context(), idle); err != nil || len(early) != 0 {
		t.Errorf("at once: %v, %v", early, err)
	}
	for n := 2; n <= 3; n++ {
		h.Wait(h.Timing.Presence*2/3 + h.Slack)
		messages, err := h.Store.Pending(t.Context(), idle)
		if err != nil || len(messages) != 1 || messages[0].ID != got[0].ID || string(messages[0].Body) != "a" ||
			messages[0].Deliveries != n {
			t.Errorf("delivery %d: %+v, %v", n, messages, err)
		}
		if len(messages) == 1 && messages[0].Age < h.Timing.Presence*2/3 {
			t.Errorf("its age is %s", messages[0].Age)
		}
	}
}

func testFetchWaits(t *testing.T, h *Harness) {
	h.announce(t, "i-1")
	got := make(chan []store.InboxMessage)
	go func() {
		for {
			messages, err := h.Store.Fetch(t.Context(), store.FetchParams{Inbox: "i-1", Wait: h.Timing.Presence / 2, Limit: 8})
			if err != nil || len(messages) > 0 {
				got <- messages
				return
			}
		}
	}()
	h.post(t, "i-1", "x")
	if diff := cmp.Diff([]string{"x"}, bodies(<-got)); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

func testConcurrentPosts(t *testing.T, h *Harness) {
	h.announceFor(t, "i-1", time.Minute) // a busy machine may need long for so many posts
	const senders, each = 4, 25
	var wg sync.WaitGroup
	for sender := range senders {
		wg.Go(func() {
			for i := range each {
				p := store.PostParams{To: "i-1", Body: fmt.Appendf(nil, "%d.%d", sender, i), MaxMessages: senders * each}
				if got, err := h.Store.Post(t.Context(), p); err != nil || got != store.Accepted {
					t.Errorf("%s: %d, %v", p.Body, got, err)
				}
			}
		})
	}
	posted := make(chan struct{})
	go func() { wg.Wait(); close(posted) }()
	defer wg.Wait() // also if the test fails before all were fetched
	seen := make(map[string]int)
	for fetched, complete := 0, false; !complete || fetched > 0; {
		select {
		case <-posted: // what was posted can be fetched: the test ends with the first fetch that finds nothing
			complete = true
		default:
		}
		messages := h.fetch(t, "i-1", 16)
		fetched = len(messages)
		for _, m := range messages {
			seen[string(m.Body)]++
			if err := h.Store.Acknowledge(t.Context(), "i-1", m.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(seen) != senders*each {
		t.Errorf("%d messages were fetched, want %d", len(seen), senders*each)
	}
	for body, n := range seen {
		if n != 1 {
			t.Errorf("%s was fetched %d times", body, n)
		}
	}
	if inst, _ := h.instance(t, "i-1"); inst.Inbox != 0 || inst.Pending != 0 {
		t.Errorf("after all were acknowledged: %+v", inst)
	}
}

func testLatePost(t *testing.T, h *Harness) {
	h.announce(t, "i-1")
	if _, err := h.Store.Post(expiredContext(t), store.PostParams{To: "i-1", Body: []byte("x"), MaxMessages: 4}); err == nil {
		t.Error("it was accepted")
	}
	if inst, _ := h.instance(t, "i-1"); inst.Inbox != 0 {
		t.Errorf("the inbox has it: %+v", inst)
	}
}

// post posts a message to an inbox that holds at most four.
func (h *Harness) post(t *testing.T, to core.InstanceID, body string) store.PostResult {
	t.Helper()
	posted, err := h.Store.Post(t.Context(), store.PostParams{To: to, Body: []byte(body), MaxMessages: 4})
	if err != nil {
		t.Fatal(err)
	}
	return posted
}

// fetch fetches the messages that have arrived.
func (h *Harness) fetch(t *testing.T, inbox core.InstanceID, limit int) []store.InboxMessage {
	t.Helper()
	messages, err := h.Store.Fetch(t.Context(), store.FetchParams{Inbox: inbox, Wait: time.Millisecond, Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	return messages
}

// bodies returns the bodies of messages.
func bodies(messages []store.InboxMessage) []string {
	list := []string{}
	for _, m := range messages {
		list = append(list, string(m.Body))
	}
	return list
}
