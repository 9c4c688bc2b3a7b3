package revocation_test

import (
	"slices"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

var (
	revokedAt = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	earlier   = revokedAt.Add(-time.Second)
)

// revoke returns an entry about everything until revokedAt.
func revoke(kind store.RevocationKind, tenant core.TenantID, name string) store.Revocation {
	r := store.Revocation{RevocationTarget: store.RevocationTarget{Kind: kind, Tenant: tenant, Name: name}}
	if kind != store.RevokedNode {
		r.Before = revokedAt
	}
	return r
}

// TestRevokedCallers: a caller is revoked by an entry for its key, signer, tenant or session if it was issued before that.
func TestRevokedCallers(t *testing.T) {
	t.Parallel()
	key := auth.Principal{Key: "ops", Role: auth.Operator}
	token := auth.Principal{Key: "shop", Role: auth.Session, Tenant: "acme", Session: "room-1", KID: "2026", Issued: earlier}
	later, exact := token, token
	later.Issued, exact.Issued = revokedAt.Add(time.Second), revokedAt
	ofRevoked, ofRenewed := later, later
	ofRevoked.Issuer = &auth.Principal{Key: "shop", Role: auth.Minter, Tenant: "acme"}
	ofRenewed.Issuer = &auth.Principal{Key: "shop", Role: auth.Minter, Tenant: "acme", Issued: revokedAt}
	node := auth.Principal{Key: "gpus", Role: auth.Node, Tenant: "acme", KID: "2026", Session: "room-1", Issued: earlier}
	for _, c := range []struct {
		name   string
		caller auth.Principal
		by     store.Revocation
		want   bool
	}{
		{"a key without not_before", key, revoke(store.RevokedKey, "", "ops"), true},
		{"another key", key, revoke(store.RevokedKey, "", "ops2"), false},
		{"another kind of the same name", key, revoke(store.RevokedTenant, "", "ops"), false},
		{"the token of a key", token, revoke(store.RevokedKey, "", "shop"), true},
		{"a later token of a key", later, revoke(store.RevokedKey, "", "shop"), false},
		{"a token of that time", exact, revoke(store.RevokedKey, "", "shop"), false},
		{"a later token that a revoked key minted", ofRevoked, revoke(store.RevokedKey, "", "shop"), true},
		{"a token that a key minted which became valid later", ofRenewed, revoke(store.RevokedKey, "", "shop"), false},
		{"a later token that a key of a revoked tenant minted", ofRevoked, revoke(store.RevokedTenant, "", "acme"), true},
		{"a later token of another key", ofRevoked, revoke(store.RevokedKey, "", "shop2"), false},
		{"a signer", token, revoke(store.RevokedKID, "", "2026"), true},
		{"a later token of a signer", later, revoke(store.RevokedKID, "", "2026"), false},
		{"a caller that has no token", node, revoke(store.RevokedKID, "", "2026"), false},
		{"the key of a tenant", node, revoke(store.RevokedTenant, "", "acme"), true},
		{"the token of a tenant", token, revoke(store.RevokedTenant, "", "acme"), true},
		{"another tenant", token, revoke(store.RevokedTenant, "", "acme2"), false},
		{"a caller without a tenant", key, revoke(store.RevokedTenant, "", "acme"), false},
		{"a session", token, revoke(store.RevokedSession, "acme", "room-1"), true},
		{"a later token of a session", later, revoke(store.RevokedSession, "acme", "room-1"), false},
		{"a session of another tenant", token, revoke(store.RevokedSession, "", "room-1"), false},
		{"a caller that is no session", node, revoke(store.RevokedSession, "acme", "room-1"), false},
		{"a caller without credentials", auth.Principal{Role: auth.Operator}, revoke(store.RevokedKey, "", "ops"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFollower(t, newTestStore(t))
			mustAdd(t, f, c.by)
			if got := f.Revoked(&c.caller); got != c.want {
				t.Errorf("revoked: %v, want %v", got, c.want)
			}
			if err := f.Lift(t.Context(), c.by.RevocationTarget, "ops"); err != nil {
				t.Fatal(err)
			}
			others := func(r store.Revocation) bool { return r.Kind != store.RevokedLogin } // the logins of a key stay ended
			if f.Revoked(&c.caller) || slices.ContainsFunc(f.Entries(), others) {
				t.Error("it is still revoked after the revocation was lifted")
			}
		})
	}
}

// TestRevokedNodes: a node is revoked by its name, or by the key or the tenant with which it registered before that.
func TestRevokedNodes(t *testing.T) {
	t.Parallel()
	node := core.Node{ID: "gpu-1", Declaration: core.Declaration{Key: "gpus", Tenant: "acme"}, Epoch: core.Epoch(earlier.UnixMicro())}
	later, shared := node, node
	later.Epoch, shared.Tenant, shared.Key = core.Epoch(revokedAt.UnixMicro()), "", ""
	for _, c := range []struct {
		name string
		node core.Node
		by   store.Revocation
		want bool
	}{
		{"its name", node, revoke(store.RevokedNode, "", "gpu-1"), true},
		{"its name, whenever it registered", later, revoke(store.RevokedNode, "", "gpu-1"), true},
		{"another name", node, revoke(store.RevokedNode, "", "gpu-2"), false},
		{"its key", node, revoke(store.RevokedKey, "", "gpus"), true},
		{"its key, registered later", later, revoke(store.RevokedKey, "", "gpus"), false},
		{"its tenant", node, revoke(store.RevokedTenant, "", "acme"), true},
		{"its tenant, registered later", later, revoke(store.RevokedTenant, "", "acme"), false},
		{"a node without key and tenant", shared, revoke(store.RevokedTenant, "", "acme"), false},
	} {
		f := newFollower(t, newTestStore(t))
		mustAdd(t, f, c.by)
		if got := f.NodeRevoked(&c.node); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		if got := f.NodeNameRevoked(c.node.ID); got != (c.want && c.by.Kind == store.RevokedNode) {
			t.Errorf("%s: the name is revoked: %v", c.name, got)
		}
	}
}

// TestRevokedSessions: a session is revoked by its name or its tenant if it started before that.
func TestRevokedSessions(t *testing.T) {
	t.Parallel()
	f := newFollower(t, newTestStore(t))
	mustAdd(t, f, revoke(store.RevokedSession, "acme", "room-1"))
	mustAdd(t, f, revoke(store.RevokedTenant, "", "umbrella"))
	for _, c := range []struct {
		key     core.SessionKey
		started time.Time
		want    bool
	}{
		{core.SessionKey{Tenant: "acme", Name: "room-1"}, earlier, true},
		{core.SessionKey{Tenant: "acme", Name: "room-1"}, time.Time{}, true}, // of an earlier version, which did not record it
		{core.SessionKey{Tenant: "acme", Name: "room-1"}, revokedAt, false},
		{core.SessionKey{Tenant: "acme", Name: "room-2"}, earlier, false},
		{core.SessionKey{Name: "room-1"}, earlier, false},
		{core.SessionKey{Tenant: "umbrella", Name: "room-1"}, earlier, true},
		{core.SessionKey{Tenant: "umbrella", Name: "room-1"}, revokedAt, false},
	} {
		if got := f.SessionRevoked(c.key, c.started, f.Latest()) != nil; got != c.want {
			t.Errorf("%s of %v: revoked %v, want %v", c.key, c.started, got, c.want)
		}
	}
}

// TestRevocationUntilNow: it covers what was issued by an instance that did not know it, whatever the clocks say, and nothing that was issued
// with knowledge of it.
func TestRevocationUntilNow(t *testing.T) {
	t.Parallel()
	f := newFollower(t, newTestStore(t))
	p := auth.Principal{Key: "shop", Role: auth.Session, Tenant: "acme", Session: "room-1", KID: "2026"}
	for _, target := range []store.RevocationTarget{
		{Kind: store.RevokedKey, Name: "shop"}, {Kind: store.RevokedSession, Tenant: "acme", Name: "room-1"},
		{Kind: store.RevokedKID, Name: "2026"}, {Kind: store.RevokedTenant, Name: "acme"}, {Kind: store.RevokedSession, Tenant: "acme", Name: "room-1"},
	} {
		before := p
		before.Known, before.Issued = f.Latest(), time.Now().Add(time.Hour) // by a clock that is ahead
		if f.Revoked(&before) {
			t.Errorf("before %s was revoked", target)
		}
		mustAdd(t, f, store.Revocation{RevocationTarget: target})
		after := p
		after.Known, after.Issued = f.Latest(), time.Now().Add(-time.Hour) // by a clock that is behind
		if !f.Revoked(&before) || f.Revoked(&after) {
			t.Errorf("%s: a token of before is revoked: %v, one of after: %v", target, f.Revoked(&before), f.Revoked(&after))
		}
		key := core.SessionKey{Tenant: "acme", Name: "room-1"}
		if covers := target.Kind == store.RevokedSession || target.Kind == store.RevokedTenant; covers {
			if f.SessionRevoked(key, before.Issued, before.Known) == nil || f.SessionRevoked(key, after.Issued, after.Known) != nil {
				t.Errorf("%s: the sessions", target)
			}
		}
	}
}
