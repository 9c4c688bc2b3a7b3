package storetest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// instanceBehaviours is the specification of Instances.
var instanceBehaviours = []behaviour{
	{"an instance is present until its TTL expires or it withdraws", testPresence},
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
	if diff := cmp.Diff(store.Instance{ID: "i-1", Present: true, HasInbox: true, Body: []byte("I am i-1")}, first); diff != "" {
		t.Errorf("the instance that renews (-want +got):\n%s", diff)
	}
	if second, _ := h.instance(t, "i-2"); second.Present || second.Body != nil {
		t.Errorf("the instance that does not renew: %+v", second)
	}
	if err := h.Store.Withdraw(t.Context(), "i-1"); err != nil {
		t.Fatal(err)
	}
	if first, _ := h.instance(t, "i-1"); first.Present {
		t.Error("it is present after it withdrew")
	}
}

// announce makes an instance present for one Timing.Presence.
func (h *Harness) announce(t *testing.T, id core.InstanceID) {
	t.Helper()
	if err := h.Store.Announce(t.Context(), store.AnnounceParams{ID: id, Body: []byte("I am " + id), TTL: h.Timing.Presence}); err != nil {
		t.Fatal(err)
	}
}

// instance returns the state of an instance, and whether it is listed.
func (h *Harness) instance(t *testing.T, id core.InstanceID) (inst store.Instance, listed bool) {
	t.Helper()
	all, err := h.Store.Instances(t.Context())
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
