// Package revocation holds this instance's copy of the revocations: which keys, tokens, sessions and nodes are not valid any more. Every
// check is a lookup in memory. The copy follows the store, and is the source from which entries that the store has lost are restored.
package revocation

import (
	"container/heap"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// list is the revocations. Reads take no lock; changes are made one at a time, and each costs about the same however many entries there
// are.
type list struct {
	entries     sync.Map // *entry by store.RevocationTarget
	count       atomic.Int64
	revocations atomic.Int64 // of these, those that are not drains

	// For changes.
	expiries expiries
	sessions map[core.TenantID]int // how many sessions of a tenant there are
	latest   time.Time             // of all entries that there were: all that the list knows was added until then
}

// entry is a revocation in the list, which does not change.
type entry struct {
	store.Revocation
	at int // its place in the expiries; -1: it never expires
}

// expiries are the entries that expire, the first to expire at the front: a heap.
type expiries []*entry

func (x expiries) Len() int           { return len(x) }
func (x expiries) Less(i, j int) bool { return x[i].Until.Before(x[j].Until) }

func (x expiries) Swap(i, j int) {
	x[i], x[j] = x[j], x[i]
	x[i].at, x[j].at = i, j
}

// Push implements heap.Interface.
func (x *expiries) Push(e any) {
	added := e.(*entry)
	added.at = len(*x)
	*x = append(*x, added)
}

// Pop implements heap.Interface.
func (x *expiries) Pop() any {
	last := (*x)[len(*x)-1]
	(*x)[len(*x)-1] = nil
	*x = (*x)[:len(*x)-1]
	return last
}

func (l *list) len() int {
	if l == nil {
		return 0
	}
	return int(l.count.Load())
}

// any reports whether there are revocations.
func (l *list) any() bool { return l != nil && l.revocations.Load() > 0 }

func (l *list) get(t store.RevocationTarget) *entry {
	e, _ := l.entries.Load(t)
	found, _ := e.(*entry)
	return found
}

// all yields the entries.
func (l *list) all() iter.Seq[*store.Revocation] {
	return func(yield func(*store.Revocation) bool) {
		if l.len() == 0 {
			return
		}
		l.entries.Range(func(_, e any) bool { return yield(&e.(*entry).Revocation) })
	}
}

// find returns the entry for a target that is in force; nil when there is none.
func (l *list) find(kind store.RevocationKind, tenant core.TenantID, name string) *store.Revocation {
	if l.len() == 0 || name == "" {
		return nil
	}
	if e := l.get(store.RevocationTarget{Kind: kind, Tenant: tenant, Name: name}); e != nil && !e.Lifted {
		return &e.Revocation
	}
	return nil
}

// covers reports whether an entry is about what was issued, or began, at a time, on an instance that knew the entries up to a time.
func covers(r *store.Revocation, issued, known time.Time) bool {
	return r != nil && r.Covers(issued, known)
}

// coversTime is covers for what does not say which entries were known.
func coversTime(r *store.Revocation, issued time.Time) bool { return r != nil && r.CoversTime(issued) }

// revoked reports whether a caller is revoked: a key that became valid before a revocation, or a token that was minted before it, or
// without knowledge of it. The tokens of a revoked key are revoked, too, whenever they were minted.
func (l *list) revoked(p *auth.Principal) bool {
	if !l.any() {
		return false
	}
	key, tenant := l.find(store.RevokedKey, "", p.Key), l.find(store.RevokedTenant, "", string(p.Tenant))
	if p.Role != auth.Session {
		return coversTime(key, p.Issued) || coversTime(tenant, p.Issued) || p.IsLogin() && (l.loginEnded(p) || l.revoked(p.Issuer))
	}
	return covers(key, p.Issued, p.Known) || covers(tenant, p.Issued, p.Known) || p.Issuer != nil && l.revoked(p.Issuer) ||
		covers(l.find(store.RevokedKID, "", p.KID), p.Issued, p.Known) ||
		covers(l.find(store.RevokedSession, p.Tenant, string(p.Session)), p.Issued, p.Known)
}

// loginEnded reports whether a login was ended: by itself, or by a revocation of its key or its tenant that was lifted since.
func (l *list) loginEnded(p *auth.Principal) bool {
	ofKey, ofTenant := loginsOf(store.RevokedKey, p.Key), loginsOf(store.RevokedTenant, string(p.Tenant))
	return l.find(store.RevokedLogin, "", p.TokenID) != nil ||
		coversTime(l.find(store.RevokedLogin, "", ofKey.Name), p.Issued) ||
		coversTime(l.find(store.RevokedLogin, "", ofTenant.Name), p.Issued)
}

// loginsOf is the target for all logins of a key or a tenant. The ids of logins have no colon.
func loginsOf(kind store.RevocationKind, name string) store.RevocationTarget {
	return store.RevocationTarget{Kind: store.RevokedLogin, Name: string(kind) + ":" + name}
}

// session returns the entry by which a session is revoked that started at a time, on an instance that knew the entries up to a time; nil
// when there is none.
func (l *list) session(key core.SessionKey, started, known time.Time) *store.Revocation {
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
func (l *list) node(n *core.Node) bool {
	registered := time.UnixMicro(int64(n.Epoch))
	return l.find(store.RevokedNode, "", string(n.ID)) != nil ||
		coversTime(l.find(store.RevokedKey, "", n.Key), registered) ||
		coversTime(l.find(store.RevokedTenant, "", string(n.Tenant)), registered)
}

// merge adds further entries, and removes those that have expired; of two entries for a target the later one stays. It reports whether a
// revocation has changed.
func (l *list) merge(entries []store.Revocation, now time.Time) (changed bool) {
	for i := range entries {
		r := entries[i]
		old := l.get(r.RevocationTarget)
		if old != nil && !r.At.After(old.At) {
			continue
		}
		added := &entry{Revocation: r, at: -1}
		if !r.Until.IsZero() {
			heap.Push(&l.expiries, added)
		}
		if r.Kind == store.RevokedSession {
			l.sessions[r.Tenant]++
		}
		l.entries.Store(r.RevocationTarget, added)
		l.count.Add(1)
		if r.Kind != store.DrainedNode {
			l.revocations.Add(1)
		}
		if old != nil { // last: a check meanwhile must not find that there are no revocations
			l.uncount(old)
		}
		if r.At.After(l.latest) {
			l.latest = r.At
		}
		changed = changed || r.Kind != store.DrainedNode
	}
	for len(l.expiries) > 0 && l.expiries[0].Expired(now) {
		first := l.expiries[0]
		l.uncount(first)
		l.entries.Delete(first.RevocationTarget)
		changed = changed || first.Kind != store.DrainedNode
	}
	return changed
}

// uncount removes an entry from all but the entries.
func (l *list) uncount(e *entry) {
	l.count.Add(-1)
	if e.Kind != store.DrainedNode {
		l.revocations.Add(-1)
	}
	if e.at >= 0 {
		heap.Remove(&l.expiries, e.at)
	}
	if e.Kind != store.RevokedSession {
		return
	}
	if l.sessions[e.Tenant]--; l.sessions[e.Tenant] == 0 {
		delete(l.sessions, e.Tenant)
	}
}

// missing returns the entries of the list, of those that were added until a time, that have not expired and that others do not have, or
// only in an older version.
func (l *list) missing(others []store.Revocation, until, now time.Time) []store.Revocation {
	have := make(map[store.RevocationTarget]time.Time, len(others))
	for i := range others {
		have[others[i].RevocationTarget] = others[i].At
	}
	var lost []store.Revocation
	for r := range l.all() {
		if at, ok := have[r.RevocationTarget]; !r.At.After(until) && !r.Expired(now) && (!ok || at.Before(r.At)) {
			lost = append(lost, *r)
		}
	}
	return lost
}

// inForce returns the revocations that are not lifted, in the order of their targets.
func (l *list) inForce() []store.Revocation {
	entries := make([]store.Revocation, 0, l.len())
	for r := range l.all() {
		if !r.Lifted && r.Kind != store.DrainedNode {
			entries = append(entries, *r)
		}
	}
	slices.SortFunc(entries, func(a, b store.Revocation) int {
		return strings.Compare(a.String(), b.String())
	})
	return entries
}
