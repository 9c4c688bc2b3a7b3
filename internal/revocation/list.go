// Package revocation holds this instance's copy of the revocations: which keys, tokens, sessions and nodes are not valid any more. Every
// check is a lookup in memory. The copy follows the store, and is the source from which entries that the store has lost are restored.
package revocation

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// list is the revocations at one time. It does not change.
type list map[store.RevocationTarget]*store.Revocation

// find returns the entry for a target that is in force; nil when there is none.
func (l list) find(kind store.RevocationKind, tenant core.TenantID, name string) *store.Revocation {
	if len(l) == 0 || name == "" {
		return nil
	}
	if r := l[store.RevocationTarget{Kind: kind, Tenant: tenant, Name: name}]; r != nil && !r.Lifted {
		return r
	}
	return nil
}

// covers reports whether an entry is about what was issued, or began, at a time, on an instance that knew the entries up to a time.
func covers(r *store.Revocation, issued, known time.Time) bool {
	return r != nil && r.Covers(issued, known)
}

// coversTime is covers for what does not say which entries were known.
func coversTime(r *store.Revocation, issued time.Time) bool { return r != nil && r.CoversTime(issued) }

// revoked reports whether a caller is revoked: a key that became valid before a revocation, or a token that was minted before it, or without
// knowledge of it. The tokens of a revoked key are revoked, too, whenever they were minted.
func (l list) revoked(p *auth.Principal) bool {
	if len(l) == 0 {
		return false
	}
	key, tenant := l.find(store.RevokedKey, "", p.Key), l.find(store.RevokedTenant, "", string(p.Tenant))
	if p.Role != auth.Session {
		return coversTime(key, p.Issued) || coversTime(tenant, p.Issued) || p.IsLogin() && (l.find(store.RevokedLogin, "", p.TokenID) != nil || l.revoked(p.Issuer))
	}
	return covers(key, p.Issued, p.Known) || covers(tenant, p.Issued, p.Known) || p.Issuer != nil && l.revoked(p.Issuer) ||
		covers(l.find(store.RevokedKID, "", p.KID), p.Issued, p.Known) ||
		covers(l.find(store.RevokedSession, p.Tenant, string(p.Session)), p.Issued, p.Known)
}

// session returns the entry by which a session is revoked that started at a time, on an instance that knew the entries up to a time; nil
// when there is none.
func (l list) session(key core.SessionKey, started, known time.Time) *store.Revocation {
	if r := l.find(store.RevokedSession, key.Tenant, string(key.Name)); covers(r, started, known) {
		return r
	}
	if r := l.find(store.RevokedTenant, "", string(key.Tenant)); covers(r, started, known) {
		return r
	}
	return nil
}

// node reports whether a node is revoked: its name, or the key or the tenant with which it registered before a revocation. The epoch of
// a node is the time of its registration in microseconds, on the store's clock, as is that of an entry.
func (l list) node(n *core.Node) bool {
	registered := time.UnixMicro(int64(n.Epoch))
	return l.find(store.RevokedNode, "", string(n.ID)) != nil ||
		coversTime(l.find(store.RevokedKey, "", n.Key), registered) ||
		coversTime(l.find(store.RevokedTenant, "", string(n.Tenant)), registered)
}

// merge returns the list with further entries, and without those that have expired; of two entries for a target the later one stays. It
// reports whether that is another list.
func (l list) merge(entries []store.Revocation, now time.Time) (list, bool) {
	merged, changed := make(list, len(l)+len(entries)), false
	maps.Copy(merged, l)
	for i := range entries {
		r := entries[i]
		if old := merged[r.RevocationTarget]; old == nil || r.At.After(old.At) {
			merged[r.RevocationTarget], changed = &r, true
		}
	}
	for target, r := range merged {
		if r.Expired(now) {
			delete(merged, target)
			changed = true
		}
	}
	if !changed {
		return l, false
	}
	return merged, true
}

// latest returns the time of the latest entry: all that the list knows was added until then.
func (l list) latest() (at time.Time) {
	for _, r := range l {
		if r.At.After(at) {
			at = r.At
		}
	}
	return at
}

// missing returns the entries of the list that have not expired and that others do not have, or only in an older version.
func (l list) missing(others []store.Revocation, now time.Time) []store.Revocation {
	have := make(map[store.RevocationTarget]time.Time, len(others))
	for i := range others {
		have[others[i].RevocationTarget] = others[i].At
	}
	var lost []store.Revocation
	for target, r := range l {
		if at, ok := have[target]; !r.Expired(now) && (!ok || at.Before(r.At)) {
			lost = append(lost, *r)
		}
	}
	return lost
}

// inForce returns the entries that are not lifted, in the order of their targets.
func (l list) inForce() []store.Revocation {
	entries := make([]store.Revocation, 0, len(l))
	for _, r := range l {
		if !r.Lifted {
			entries = append(entries, *r)
		}
	}
	slices.SortFunc(entries, func(a, b store.Revocation) int {
		return strings.Compare(a.String(), b.String())
	})
	return entries
}
