package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// largeNodeBehaviours is the specification of nodes with as many services as a declaration may have.
var largeNodeBehaviours = []behaviour{
	{"a node with thousands of services is read as it was declared", testLargeNode},
	{"the name of a node with thousands of services is not taken by another", testLargeNodeKeepsItsName},
}

func largeNode(id core.NodeID) core.Node {
	n := declaredNode(id, 4)
	for i := range 4096 {
		n.Services = append(n.Services, core.Service{
			ID: fmt.Sprintf("service-%d", i), Version: fmt.Sprintf("1.%d", i%9), Type: "nmt", Status: core.ServiceReady,
		})
	}
	n.Tenant, n.SecretHash = "acme", core.HashSecret("secret")
	return n
}

func testLargeNode(t *testing.T, h *Harness) {
	r, err := h.Store.Register(t.Context(), store.RegisterParams{Node: largeNode("node-a"), Load: core.UnknownLoad})
	if err != nil {
		t.Fatal(err)
	}
	got, err := readNode(t, h, "node-a")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r.Node, got); diff != "" {
		t.Errorf("node (-want +got):\n%s", diff)
	}
	p := h.heartbeatParams(got, heartbeat{seq: 1, change: func(n *core.Node) { n.Services = n.Services[:4000] }})
	changed, err := h.Store.Heartbeat(t.Context(), p)
	if err != nil || len(changed.Node.Services) != 4000 {
		t.Fatalf("%v, %v", changed.Verdict, err)
	}
	// A caller that knows an earlier version gets the whole node.
	later, err := h.Store.Heartbeat(t.Context(), h.heartbeatParams(got, heartbeat{seq: 2}))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(changed.Node, later.Node); diff != "" {
		t.Errorf("after a heartbeat with an earlier version (-want +got):\n%s", diff)
	}
}

func testLargeNodeKeepsItsName(t *testing.T, h *Harness) {
	repeatWhileSlow(t, func(node core.NodeID) (inTime bool) {
		own := store.RegisterParams{Node: largeNode(node), Load: core.UnknownLoad, RequireSecret: true}
		other, tenant := own, own
		other.Node.SecretHash = core.HashSecret("another")
		tenant.Node.Tenant = "other"
		began := time.Now()
		for i, c := range []struct {
			p    store.RegisterParams
			want error
		}{{own, nil}, {other, store.ErrNameTaken}, {tenant, store.ErrNameTaken}, {own, nil}} {
			_, err := h.Store.Register(t.Context(), c.p)
			if time.Since(began) >= h.Timing.Presence {
				return false // the node may be absent
			}
			if !errors.Is(err, c.want) {
				t.Errorf("registration %d: %v, want %v", i, err, c.want)
			}
		}
		return true
	})
}
