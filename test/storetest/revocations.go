package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/store"
)

// revocationBehaviours is the specification of Revocations.
var revocationBehaviours = []behaviour{
	{"an added revocation is read with the store's time, and replaces the one for its target", testAddRevocation},
	{"the version of the revocations changes with every change, and only then", testRevocationVersion},
	{"a lost revocation is put back, and an older one does not replace a newer one", testRestoreRevocations},
	{"an expired revocation is not read, does not count and is not put back", testRevocationsExpire},
	{"revocations after a time are read alone, with the count of all", testReadRevocationsAfter},
	{"all revocations of concurrent callers are in the list", testConcurrentRevocations},
	{"a late revocation is not added", testLateRevocation},
}

// revocationOf describes a new revocation of a key that is kept until it is lifted.
func revocationOf(key, reason string) store.Revocation {
	return store.Revocation{
		RevocationTarget: store.RevocationTarget{Kind: store.RevokedKey, Name: key},
		Before:           time.UnixMilli(1_700_000_000_123).UTC(), By: "ops", Reason: reason,
	}
}

// put puts entries into the list, and returns those that were put.
func (h *Harness) put(t *testing.T, p store.PutRevocationsParams) []store.Revocation {
	t.Helper()
	put, err := h.Store.PutRevocations(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return put
}

// addRevocation adds a new entry for a time; 0: for ever.
func addRevocation(t *testing.T, h *Harness, r store.Revocation, keep time.Duration) store.Revocation {
	t.Helper()
	put := h.put(t, store.PutRevocationsParams{Entries: []store.Revocation{r}, Keep: keep})
	if len(put) != 1 {
		t.Fatalf("%v were added, want one", put)
	}
	return put[0]
}

func restoreRevocations(t *testing.T, h *Harness, entries ...store.Revocation) []store.Revocation {
	t.Helper()
	return h.put(t, store.PutRevocationsParams{Entries: entries})
}

// readRevocations reads the entries after a time, in the order of their targets.
func readRevocations(t *testing.T, h *Harness, after time.Time) store.RevocationPage {
	t.Helper()
	page, err := h.Store.ReadRevocations(t.Context(), after, nil)
	if err != nil {
		t.Fatal(err)
	}
	known, err := h.Store.ReadRevocations(t.Context(), after, &page.Version)
	if err != nil || known.Version != page.Version || known.Entries != nil {
		t.Errorf("the version is %q, and was read with the list as %q: %v", known.Version, page.Version, err)
	}
	slices.SortFunc(page.Entries, func(a, b store.Revocation) int {
		return strings.Compare(a.String(), b.String())
	})
	return page
}

// wantRevocations compares the whole list.
func wantRevocations(t *testing.T, h *Harness, want ...store.Revocation) {
	t.Helper()
	page := readRevocations(t, h, time.Time{})
	if diff := cmp.Diff(want, page.Entries); diff != "" || page.Count != len(want) {
		t.Errorf("%d revocations (-want +got):\n%s", page.Count, diff)
	}
}

func testAddRevocation(t *testing.T, h *Harness) {
	if page := readRevocations(t, h, time.Time{}); page.Version != "" || page.Count != 0 || len(page.Entries) != 0 {
		t.Errorf("an empty list: %+v", page)
	}
	first := addRevocation(t, h, revocationOf("a", "first"), 0)
	session := addRevocation(t, h, store.Revocation{
		RevocationTarget: store.RevocationTarget{Kind: store.RevokedSession, Tenant: "acme", Name: "room-1"}, Ended: true,
	}, time.Hour)
	if first.At.IsZero() || !first.Until.IsZero() || session.Until.Sub(session.At).Round(time.Second) != time.Hour {
		t.Errorf("times: %+v, %+v", first, session)
	}
	wantRevocations(t, h, first, session)
	lift := revocationOf("a", "second")
	lift.Lifted = true
	lifted := addRevocation(t, h, lift, 0)
	if !lifted.At.After(first.At) {
		t.Errorf("the second entry of a target is of %v, the first of %v", lifted.At, first.At)
	}
	wantRevocations(t, h, lifted, session)
	if now := readRevocations(t, h, time.Time{}).Now; now.Before(session.At.Add(-time.Second)) || now.After(session.At.Add(time.Minute)) {
		t.Errorf("the store's time is %v, of the last entry %v", now, session.At)
	}
	ahead := store.PutRevocationsParams{
		Entries: []store.Revocation{revocationOf("b", "after an entry that the store does not have")}, After: session.At.Add(time.Hour),
	}
	if added := h.put(t, ahead); !added[0].At.After(ahead.After) {
		t.Errorf("the entry is of %v, want one after %v", added[0].At, ahead.After)
	}
}

func testRevocationVersion(t *testing.T, h *Harness) {
	seen := make(map[string]bool)
	changed := func(what string, want bool) {
		t.Helper()
		version := readRevocations(t, h, time.Time{}).Version
		if seen[version] == want {
			t.Errorf("after %s the version is %q; want a new one: %v", what, version, want)
		}
		seen[version] = true
	}
	changed("nothing", true)
	a := addRevocation(t, h, revocationOf("a", ""), 0)
	changed("an entry", true)
	addRevocation(t, h, revocationOf("a", ""), 0)
	changed("the same entry", true)
	restoreRevocations(t, h, a)
	changed("an older entry was put back", false)
	b := revocationOf("b", "")
	b.At = a.At.Add(-time.Hour)
	restoreRevocations(t, h, b)
	changed("a lost entry was put back", true)
}

func testRestoreRevocations(t *testing.T, h *Harness) {
	current := addRevocation(t, h, revocationOf("a", "current"), 0)
	older, newer, lost := current, current, current
	older.At, older.Reason = current.At.Add(-time.Microsecond), "older"
	lost.Name, lost.Reason = "b", "lost"
	lost.At, lost.Until = current.At.Add(-time.Hour), current.At.Add(time.Hour).Truncate(time.Millisecond)
	if diff := cmp.Diff([]store.Revocation{lost}, restoreRevocations(t, h, older, lost)); diff != "" {
		t.Errorf("put back (-want +got):\n%s", diff)
	}
	wantRevocations(t, h, current, lost)
	newer.At, newer.Reason = current.At.Add(time.Hour), "newer"
	restoreRevocations(t, h, newer)
	wantRevocations(t, h, newer, lost)
	// After the clock was set back a new entry is still later than all others.
	for _, key := range []string{"a", "b"} {
		if added := addRevocation(t, h, revocationOf(key, "last"), 0); !added.At.After(newer.At) {
			t.Errorf("an entry of %v was added after one of %v", added.At, newer.At)
		}
	}
}

func testRevocationsExpire(t *testing.T, h *Harness) {
	a, b := addRevocation(t, h, revocationOf("a", ""), h.Timing.Presence), addRevocation(t, h, revocationOf("b", ""), 0)
	wantRevocations(t, h, a, b)
	h.Wait(h.Timing.Presence + h.Slack)
	wantRevocations(t, h, b)
	restoreRevocations(t, h, a)
	wantRevocations(t, h, b)
	c := addRevocation(t, h, revocationOf("c", ""), 0) // which drops it
	wantRevocations(t, h, b, c)
	again := addRevocation(t, h, revocationOf("a", "without an end"), 0)
	h.Wait(h.Timing.Presence + h.Slack)
	wantRevocations(t, h, again, b, c)
}

func testReadRevocationsAfter(t *testing.T, h *Harness) {
	a := addRevocation(t, h, revocationOf("a", ""), 0)
	b := addRevocation(t, h, revocationOf("b", ""), 0)
	page := readRevocations(t, h, a.At)
	if diff := cmp.Diff([]store.Revocation{b}, page.Entries); diff != "" || page.Count != 2 {
		t.Errorf("after the first of %d (-want +got):\n%s", page.Count, diff)
	}
	if page := readRevocations(t, h, b.At); len(page.Entries) != 0 || page.Count != 2 {
		t.Errorf("after the last: %+v", page)
	}
}

func testConcurrentRevocations(t *testing.T, h *Harness) {
	const callers, each = 8, 10
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for i := range each {
				own, shared := revocationOf(fmt.Sprintf("k%d-%d", caller, i), ""), revocationOf("shared", fmt.Sprint(caller, i))
				p := store.PutRevocationsParams{Entries: []store.Revocation{own, shared}}
				if put, err := h.Store.PutRevocations(t.Context(), p); err != nil || len(put) != 2 {
					t.Errorf("%v were added, %v", put, err)
				}
			}
		})
	}
	wg.Wait()
	page := readRevocations(t, h, time.Time{})
	if want := callers*each + 1; page.Count != want || len(page.Entries) != want {
		t.Errorf("%d entries, and a count of %d; want %d", len(page.Entries), page.Count, want)
	}
}

func testLateRevocation(t *testing.T, h *Harness) {
	p := store.PutRevocationsParams{Entries: []store.Revocation{revocationOf("a", "")}}
	if _, err := h.Store.PutRevocations(expiredContext(t), p); err == nil {
		t.Error("a late revocation was added")
	}
	wantRevocations(t, h)
}
