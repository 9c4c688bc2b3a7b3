package storetest

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// identityBehaviours is the specification of who may register a name that is in use.
var identityBehaviours = []behaviour{
	{"a node that is present is registered again only with its secret", testPresentNodeNeedsSecret},
	{"a node that is not present is registered with any secret", testAbsentNodeNeedsNoSecret},
	{"a node that is present is never registered for another tenant", testPresentNodeKeepsTenant},
	{"a node that takes the name of one that is gone does not get its jobs", testNameWithoutJobs},
	{"a heartbeat keeps the secret of a node", testHeartbeatKeepsSecret},
}

// registerAs registers node-a with a secret.
func registerAs(t *testing.T, h *Harness, secret string, change ...func(*store.RegisterParams)) error {
	t.Helper()
	p := store.RegisterParams{Node: declaredNode("node-a", 2), Load: core.UnknownLoad, RequireSecret: true}
	p.Node.SecretHash = core.HashSecret(secret)
	for _, fn := range change {
		fn(&p)
	}
	_, err := h.Store.Register(t.Context(), p)
	return err
}

func testNameWithoutJobs(t *testing.T, h *Harness) {
	for _, c := range []struct {
		name   string
		change func(*store.RegisterParams)
		kept   bool
	}{
		{"with its secret", func(*store.RegisterParams) {}, true},
		{"without its secret", func(p *store.RegisterParams) { p.Node.SecretHash = core.HashSecret("second") }, false},
		{"for another tenant", func(p *store.RegisterParams) { p.Node.Tenant = "acme" }, false},
	} {
		p := store.RegisterParams{Node: declaredNode(core.NodeID("node-"+strings.ReplaceAll(c.name, " ", "-")), 2), Load: core.UnknownLoad,
			RequireSecret: true}
		p.Node.SecretHash = core.HashSecret("first")
		first, err := h.Store.Register(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		h.mustReserve(t, first.Node, "job-1")
		h.commit(t, leaseRef(p.Node.ID, "job-1"))
		h.Wait(h.Timing.Presence + h.Slack)
		c.change(&p)
		listed := []store.ActiveJob{{Job: "job-1", Attempt: 1}}
		p.Activity = store.Activity{Lists: true, Active: listed}
		next, err := h.Store.Register(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if c.kept {
			if len(next.Kept) != 1 || len(next.Orphans)+len(next.Strays)+len(next.Cancels) != 0 {
				t.Errorf("%s: %+v", c.name, next)
			}
			continue
		}
		if diff := cmp.Diff(listed, next.Cancels); diff != "" || len(next.Kept)+len(next.Strays) != 0 || len(next.Orphans) != 1 &&
			!h.Repeats {
			t.Errorf("%s: kept %v, strays %v, orphans %v, cancels (-want +got):\n%s", c.name, next.Kept, next.Strays, next.Orphans, diff)
		}
		again, err := h.Store.Register(t.Context(), p) // now with the secret of the registration before
		if err != nil || len(again.Kept)+len(again.Strays) != 0 || len(again.Cancels) != 1 {
			t.Errorf("%s, again: kept %v, strays %v, cancels %v, %v", c.name, again.Kept, again.Strays, again.Cancels, err)
		}
	}
}

// wantSecret checks which secret node-a has.
func wantSecret(t *testing.T, h *Harness, secret string) {
	t.Helper()
	status, err := store.ReadNode(t.Context(), h.Store, "node-a")
	if err != nil {
		t.Fatal(err)
	}
	if !status.Node.HasSecret(secret) {
		t.Errorf("the node does not have the secret %q", secret)
	}
}

func testPresentNodeNeedsSecret(t *testing.T, h *Harness) {
	if err := registerAs(t, h, "first"); err != nil {
		t.Fatal(err)
	}
	before, err := store.ReadNode(t.Context(), h.Store, "node-a")
	if err != nil {
		t.Fatal(err)
	}
	if err := registerAs(t, h, "second"); !errors.Is(err, store.ErrNameTaken) {
		t.Errorf("with another secret: %v, want ErrNameTaken", err)
	}
	after, err := store.ReadNode(t.Context(), h.Store, "node-a")
	if err != nil || after.Node.Epoch != before.Node.Epoch {
		t.Errorf("a refused registration began an epoch: %v, %v", after.Node, err)
	}
	if err := registerAs(t, h, "first"); err != nil {
		t.Errorf("with its own secret: %v", err)
	}
	wantSecret(t, h, "first")
	if err := registerAs(t, h, "second", func(p *store.RegisterParams) { p.RequireSecret = false }); err != nil {
		t.Errorf("where no secret is required: %v", err)
	}
	wantSecret(t, h, "second")
}

func testAbsentNodeNeedsNoSecret(t *testing.T, h *Harness) {
	if err := registerAs(t, h, "first"); err != nil {
		t.Fatal(err)
	}
	h.Wait(h.Timing.Presence + h.Slack)
	if err := registerAs(t, h, "second"); err != nil {
		t.Errorf("after its presence: %v", err)
	}
	if err := registerAs(t, h, "second", func(p *store.RegisterParams) { p.Node.Health = core.HealthOffline }); err != nil {
		t.Fatal(err)
	}
	if err := registerAs(t, h, "third"); err != nil {
		t.Errorf("while it is offline: %v", err)
	}
	wantSecret(t, h, "third")
}

func testPresentNodeKeepsTenant(t *testing.T, h *Harness) {
	ofAcme := func(p *store.RegisterParams) { p.Node.Tenant = "acme" }
	if err := registerAs(t, h, "secret", ofAcme); err != nil {
		t.Fatal(err)
	}
	for _, tenant := range []core.TenantID{"", "beta"} {
		err := registerAs(t, h, "secret", func(p *store.RegisterParams) { p.Node.Tenant, p.RequireSecret = tenant, false })
		if !errors.Is(err, store.ErrNameTaken) {
			t.Errorf("for the tenant %q: %v, want ErrNameTaken", tenant, err)
		}
	}
	if err := registerAs(t, h, "secret", ofAcme); err != nil {
		t.Errorf("for its own tenant: %v", err)
	}
}

func testHeartbeatKeepsSecret(t *testing.T, h *Harness) {
	if err := registerAs(t, h, "first"); err != nil {
		t.Fatal(err)
	}
	status, err := store.ReadNode(t.Context(), h.Store, "node-a")
	if err != nil {
		t.Fatal(err)
	}
	next := *status.Node
	next.MaxJobs++
	result, err := h.Store.Heartbeat(t.Context(),
		store.HeartbeatParams{Node: "node-a", Known: status.Node, Declared: &next, Load: core.UnknownLoad})
	if err != nil || result.Verdict != store.OK {
		t.Fatalf("heartbeat: %v, %v", result.Verdict, err)
	}
	wantSecret(t, h, "first")
}
