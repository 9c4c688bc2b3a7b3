package storetest

import (
	"cmp"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// instanceBehaviours is the specification of Instances.
var instanceBehaviours = []behaviour{
	{"an instance is present until its TTL expires or it withdraws", testPresence},
	{"presences are listed without inboxes", testPresences},
	{"an absent instance is among those that may be absent, and one that renews is not", testMaybeAbsent},
	{"an instance that lost its inbox while it was absent gets one when it announces itself again", testInboxIsCreatedAgain},
}

func testPresence(t *testing.T, h *Harness) {
	if _, listed := h.instance(t, "i-1"); listed {
		t.Error("it is listed before its first announcement")
	}
	h.announce(t, "i-1")
	h.announce(t, "i-2")
	for range 2 {
		h.Wait(h.Timing.Presence * 2 / 3)
		h.announce(t, "i-1")
	}
	first, _ := h.instance(t, "i-1")
	if diff := gocmp.Diff(store.Instance{ID: "i-1", Present: true, HasInbox: true, Body: []byte("I am i-1")}, first); diff != "" {
		t.Errorf("the instance that renews (-want +got):\n%s", diff)
	}
	if second, _ := h.instance(t, "i-2"); second.Present || second.Body != nil {
		t.Errorf("the instance that does not renew: %+v", second)
	}
	if err := h.Store.Announce(t.Context(), store.AnnounceParams{ID: "i-1"}); err != nil {
		t.Fatal(err)
	}
	if first, _ := h.instance(t, "i-1"); first.Present {
		t.Error("it is present after it withdrew")
	}
}

func testPresences(t *testing.T, h *Harness) {
	h.announce(t, "i-1")
	h.announce(t, "i-2")
	if err := h.Store.Announce(t.Context(), store.AnnounceParams{ID: "i-2"}); err != nil {
		t.Fatal(err)
	}
	got, err := h.Store.Instances(t.Context(), store.InstancesParams{})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(got, func(a, b store.Instance) int { return cmp.Compare(a.ID, b.ID) })
	want := []store.Instance{{ID: "i-1", Present: true, Body: []byte("I am i-1")}, {ID: "i-2"}}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("presences (-want +got):\n%s", diff)
	}
}

// maybeAbsent returns the instances that may be absent, in order.
func maybeAbsent(t *testing.T, h *Harness) []core.InstanceID {
	t.Helper()
	silent, err := h.Store.Instances(t.Context(), store.InstancesParams{SilentFor: h.Timing.Presence})
	if err != nil {
		t.Fatal(err)
	}
	var ids []core.InstanceID
	for _, i := range silent {
		ids = append(ids, i.ID)
	}
	slices.Sort(ids)
	return ids
}

func testMaybeAbsent(t *testing.T, h *Harness) {
	for _, id := range []core.InstanceID{"i-1", "i-2", "i-3"} {
		h.announce(t, id)
	}
	if got := maybeAbsent(t, h); len(got) != 0 {
		t.Errorf("%v may be absent, want none", got)
	}
	if err := h.Store.Announce(t.Context(), store.AnnounceParams{ID: "i-3"}); err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff([]core.InstanceID{"i-3"}, maybeAbsent(t, h)); diff != "" {
		t.Errorf("after one withdrew (-want +got):\n%s", diff)
	}
	h.Wait(h.Timing.Presence * 2 / 3)
	renewed := time.Now()
	h.announce(t, "i-1")
	h.Wait(h.Timing.Presence/3 + h.Slack)
	absent := maybeAbsent(t, h)
	if time.Since(renewed) >= h.Timing.Presence { // a slow machine: the one that renewed may be absent, too
		absent = slices.DeleteFunc(absent, func(id core.InstanceID) bool { return id == "i-1" })
	}
	if diff := gocmp.Diff([]core.InstanceID{"i-2", "i-3"}, absent); diff != "" {
		t.Errorf("after the TTL of one that does not renew (-want +got):\n%s", diff)
	}
	for _, id := range []core.InstanceID{"i-2", "i-3"} {
		if removed, err := h.Store.RemoveInbox(t.Context(), id); err != nil || !removed {
			t.Fatalf("%v, %v", removed, err)
		}
	}
	h.announce(t, "i-1") // on a slow machine its TTL may be over
	if got := maybeAbsent(t, h); len(got) != 0 {
		t.Errorf("%v may be absent after they were removed, want none", got)
	}
}

func testInboxIsCreatedAgain(t *testing.T, h *Harness) {
	h.announce(t, "i-1")
	h.announce(t, "i-1")
	h.Wait(h.Timing.Presence + h.Slack)
	if removed, err := h.Store.RemoveInbox(t.Context(), "i-1"); err != nil || !removed {
		t.Fatalf("%v, %v", removed, err)
	}
	h.announce(t, "i-1")
	if got, listed := h.instance(t, "i-1"); !listed || !got.Present || !got.HasInbox {
		t.Errorf("%+v, want a present instance with an inbox", got)
	}
	h.announce(t, "i-1")
	if got := h.post(t, "i-1", "hello"); got != store.Accepted {
		t.Errorf("post: %v", got)
	}
	messages, err := h.Store.Fetch(t.Context(), store.FetchParams{Inbox: "i-1", Wait: h.Slack, Limit: 10})
	if err != nil || len(messages) != 1 {
		t.Errorf("%v, %v; want the message", messages, err)
	}
}

// announce makes an instance present for one Timing.Presence.
func (h *Harness) announce(t *testing.T, id core.InstanceID) {
	t.Helper()
	h.announceFor(t, id, h.Timing.Presence)
}

func (h *Harness) announceFor(t *testing.T, id core.InstanceID, ttl time.Duration) {
	t.Helper()
	if err := h.Store.Announce(t.Context(), store.AnnounceParams{ID: id, Body: []byte("I am " + id), TTL: ttl}); err != nil {
		t.Fatal(err)
	}
}

// instance returns the state of an instance, and whether it is listed.
func (h *Harness) instance(t *testing.T, id core.InstanceID) (inst store.Instance, listed bool) {
	t.Helper()
	all, err := h.Store.Instances(t.Context(), store.InstancesParams{Inboxes: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, inst := range all {
		if inst.ID == id {
			return inst, true
		}
	}
	return store.Instance{}, false
}
