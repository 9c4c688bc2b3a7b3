package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// RevocationKind is what a revocation is about. The names are stable: they are in requests and responses.
type RevocationKind string

// The kinds of revocations.
const (
	RevokedKey     RevocationKind = "key"     // a key, and the tokens that it has minted
	RevokedKID     RevocationKind = "kid"     // the tokens of a signer
	RevokedTenant  RevocationKind = "tenant"  // the keys, tokens, nodes and sessions of a tenant
	RevokedSession RevocationKind = "session" // the tokens of a session, and the session
	RevokedNode    RevocationKind = "node"    // the name of a node
	RevokedLogin   RevocationKind = "login"   // a login that was ended, by its id
	// DrainedNode is no revocation: an operator has drained a node. The node's record has that too, and decides; the entry is for when the
	// store loses the record.
	DrainedNode RevocationKind = "drain"
)

// RevocationTarget is what a revocation is about. The list has at most one entry for each target.
type RevocationTarget struct {
	Kind   RevocationKind `json:"kind"`
	Tenant core.TenantID  `json:"tenant,omitempty"` // of a session
	Name   string         `json:"name"`
}

// targetSeparator separates the parts of a target. No identifier contains it, and a URL does not have to escape it.
const targetSeparator = "~"

// String joins the parts: key~NAME, or session~TENANT~NAME.
func (t RevocationTarget) String() string {
	if t.Kind == RevokedSession {
		return string(t.Kind) + targetSeparator + string(t.Tenant) + targetSeparator + t.Name
	}
	return string(t.Kind) + targetSeparator + t.Name
}

// ParseRevocationTarget parses what String returns.
func ParseRevocationTarget(text string) (RevocationTarget, error) {
	parts := strings.Split(text, targetSeparator)
	t := RevocationTarget{Kind: RevocationKind(parts[0])}
	want := 2
	if t.Kind == RevokedSession {
		want = 3
	}
	if len(parts) != want || parts[want-1] == "" {
		return t, fmt.Errorf("%q is not the id of a revocation, such as key%[2]sNAME or session%[2]sTENANT%[2]sNAME", text, targetSeparator)
	}
	if want == 3 {
		t.Tenant = core.TenantID(parts[1])
	}
	t.Name = parts[want-1]
	return t, nil
}

// Revocation is an entry of the list of revocations.
type Revocation struct {
	RevocationTarget
	// Before is the time before which what is revoked was issued or began, if the request named one. It is not used for nodes: a name
	// is revoked until that is lifted.
	Before time.Time `json:"before,omitzero"`
	// Now says that everything is revoked that was issued by an instance which did not know this entry. So it does not depend on clocks
	// whether a token was minted before or after its revocation.
	Now bool `json:"now,omitempty"`
	// Unknown is the same for an earlier entry that this one replaces: what was issued without knowledge of that one stays revoked.
	Unknown time.Time `json:"unknown,omitzero"`
	// Ended says that a session was ended in the ordinary course, rather than because a credential is not trusted any more.
	Ended  bool   `json:"ended,omitempty"`
	Lifted bool   `json:"lifted,omitempty"` // nothing is revoked any more
	By     string `json:"by,omitempty"`     // the name of the key with which it was requested
	Reason string `json:"reason,omitempty"` // a text of that person

	// At is when the entry was added, on the store's clock, and later than every entry that the list had then. Of two entries for a
	// target the later one is in force.
	At time.Time `json:"-"`
	// Until is when the entry is dropped, on the store's clock; zero: never.
	Until time.Time `json:"-"`
}

// Since is the time of the last entry whose knowledge makes what was issued valid; zero: what was issued is judged by its time alone.
func (r *Revocation) Since() time.Time {
	if r.Now {
		return r.At
	}
	return r.Unknown
}

// Covers reports whether the entry is about what was issued, or began, at a time, on an instance that knew the entries up to a time.
func (r *Revocation) Covers(issued, known time.Time) bool {
	return issued.Before(r.Before) || known.Before(r.Since())
}

// CoversTime is Covers for what does not say which entries were known, such as a key: its time counts.
func (r *Revocation) CoversTime(issued time.Time) bool {
	return issued.Before(r.Before) || issued.Before(r.Since())
}

// Expired reports whether the entry is dropped at a time of the store's clock.
func (r *Revocation) Expired(now time.Time) bool { return !r.Until.IsZero() && !now.Before(r.Until) }

// PutRevocationsParams describes entries that are put into the list.
type PutRevocationsParams struct {
	// Entries with the time zero are new: the store decides At and Until. Others were read before, and are put back.
	Entries []Revocation
	Keep    time.Duration // after this time a new entry is dropped; 0: never
	// After is the time of the latest entry that the caller knows. A new one is later, even if the store has lost that one and
	// its clock is behind.
	After time.Time
}

// RevocationPage is the part of the list that was read.
type RevocationPage struct {
	Version string    // differs after every change of the list, also after a loss; empty: there was none
	Now     time.Time // the store's time
	Count   int       // how many entries the whole list has
	Entries []Revocation
}

// Revocations is the list of revocations that all instances follow. Each instance has a copy of it, and puts back what the store has
// lost: so an entry is lost only with the store and all instances that had read it.
type Revocations interface {
	// PutRevocations puts entries into the list, and returns those that were put. A new one replaces an earlier one for its target;
	// repeated, it replaces its first entry by the same one with a later time. One that is put back changes nothing if it is expired, or
	// not later than the one that the store has.
	PutRevocations(ctx context.Context, p PutRevocationsParams) ([]Revocation, error)
	// ReadRevocations returns the entries that were added after a time of the store's clock, and not yet dropped; all for the zero time. Of
	// the list whose version is the known one, it reads nothing else; nil: none is known.
	ReadRevocations(ctx context.Context, after time.Time, known *string) (RevocationPage, error)
}
