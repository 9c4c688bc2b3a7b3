package server

import (
	"context"
	"net/http"
	"sort"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/convert"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/revocation"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// credentialHandlers exchange keys for logins, which browsers send as a cookie, add, list and lift revocations, and serve the audit log.
type credentialHandlers struct {
	responder
	auth        *auth.Authenticator
	revocations *revocation.Follower
	loginTTL    time.Duration
	logins      *loginLimits
	context     func() wire.CallerContext
	audit       *logCopy[store.AuditEntry]
}

func (h *credentialHandlers) routes() []route {
	return append(h.loginRoutes(), []route{
		h.auditRoute(),
		{
			method: "POST", path: "/v1/auth/revocations", rule: namedOperators, action: "auth.revoke", tag: "credentials",
			summary: "Revoke a key, a signer's tokens, a tenant, a session or a node",
			description: "It takes effect on the instance that answers at once, and on all others within a second: requests are " +
				"refused, connections closed, sessions ended and nodes removed. If the store does not answer, nothing is revoked.",
			handler: handleBody(h.responder, h.revoke), codes: []wire.Code{wire.SchedulerDependencyDown},
		},
		{
			method: "GET", path: "/v1/auth/revocations", rule: fleetReaders, tag: "credentials",
			summary: "List the revocations in force, ordered by id",
			handler: handle(h.responder, h.listRevocations), params: listParams("1000"),
		},
		{
			method: "DELETE", path: "/v1/auth/revocations/{id}", rule: namedOperators, action: "auth.lift", tag: "credentials",
			summary: "Lift a revocation",
			description: "What was revoked is valid again, as far as it has not expired. Sessions that were ended do not come back, and " +
				"logins stay ended.",
			handler: handle(h.responder, h.lift),
			params:  []param{{name: "id", description: "The id of the revocation.", kind: "string", inPath: true}},
			codes:   []wire.Code{wire.NotFound, wire.SchedulerDependencyDown},
		},
	}...)
}

// maxReason is the maximum length of the reason of a revocation.
const maxReason = 256

func (h *credentialHandlers) revoke(ctx context.Context, in *wire.RevocationRequest) (*wire.Revocation, error) {
	r, e := h.readRevocation(ctx, in)
	if e != nil {
		return nil, e
	}
	callOf(ctx).concerns("revocation", r.String(), r.Tenant)
	added, err := h.revocations.Add(ctx, r)
	if err != nil {
		return nil, h.storeDown("revocations", err)
	}
	out := viewRevocation(&added)
	ring := h.auth.Keyring()
	if r.Kind == store.RevokedKey && !ring.HasKey(r.Name) {
		out.Warnings = append(out.Warnings, "no key of this name is configured on this instance: check the name")
	}
	if r.Kind == store.RevokedKID && !ring.HasSigner(r.Name) {
		out.Warnings = append(out.Warnings, "no signer with this kid is configured on this instance: check it")
	}
	return &out, nil
}

// readRevocation checks a request and converts it to an entry.
func (h *credentialHandlers) readRevocation(ctx context.Context, in *wire.RevocationRequest) (store.Revocation, *wire.Error) {
	r := store.Revocation{By: principalOf(ctx).Key, Reason: in.Reason}
	given := 0
	for _, named := range []struct {
		kind store.RevocationKind
		name string
	}{
		{store.RevokedKey, in.Key}, {store.RevokedKID, in.KID}, {store.RevokedTenant, in.Tenant}, {store.RevokedSession, in.Session},
		{store.RevokedNode, in.Node},
	} {
		if named.name != "" {
			r.Kind, r.Name = named.kind, named.name
			given++
		}
	}
	if given != 1 {
		return r, wire.Errorf(wire.InvalidRequest, "give one of key, kid, tenant, session and node, not %d", given)
	}
	if e := checkTargetName(r.Kind, r.Name); e != nil {
		return r, e
	}
	if r.Kind == store.RevokedKey && r.Name == r.By {
		return r, wire.Invalid("key", "is the key of this request, with which it could not be lifted: revoke it with the key of another "+
			"operator")
	}
	if in.TenantID != "" {
		if r.Kind != store.RevokedSession {
			return r, wire.Invalid("tenant_id", "is for a session; to revoke a tenant give tenant")
		}
		if e := convert.CheckID("tenant_id", in.TenantID); e != nil {
			return r, e
		}
		r.Tenant = core.TenantID(in.TenantID)
	}
	if len(in.Reason) > maxReason {
		return r, wire.Invalid("reason", "must be at most %d bytes", maxReason)
	}
	var e *wire.Error
	r.Before, e = readBefore(r.Kind, in.Before)
	return r, e
}

// checkTargetName checks the name of what is revoked. The names of keys of the short form auth.node_tokens contain a slash.
func checkTargetName(kind store.RevocationKind, name string) *wire.Error {
	if kind == store.RevokedKey {
		name = strings.Replace(name, "/", ".", 1)
	}
	return convert.CheckID(string(kind), name)
}

// readBefore parses the time before which something is revoked; zero: now.
func readBefore(kind store.RevocationKind, text string) (time.Time, *wire.Error) {
	if text == "" {
		return time.Time{}, nil
	}
	before, err := time.Parse(time.RFC3339, text)
	switch {
	case kind == store.RevokedNode:
		return before, wire.Invalid("before", "a node has none: its name is revoked until that is lifted")
	case err != nil:
		return before, wire.Invalid("before", "must be a time such as 2026-01-31T12:00:00Z, or absent for now")
	case before.After(time.Now()):
		return before, wire.Invalid("before", "must not be in the future")
	}
	return before.UTC(), nil
}

func viewRevocation(r *store.Revocation) wire.Revocation {
	v := wire.Revocation{
		ID: r.String(), Kind: string(r.Kind), Name: r.Name, TenantID: string(r.Tenant),
		AtMS: r.At.UnixMilli(), Ended: r.Ended, By: r.By, Reason: r.Reason,
	}
	before := r.Before
	if since := r.Since(); since.After(before) {
		before = since
	}
	if !before.IsZero() {
		v.BeforeMS = before.UnixMilli()
	}
	if !r.Until.IsZero() {
		v.UntilMS = r.Until.UnixMilli()
	}
	return v
}

// listRevocations lists the revocations in force.
func (h *credentialHandlers) listRevocations(r *http.Request) (*wire.RevocationList, error) {
	q, e := parseList(r.URL.Query(), "revocations", 1, maxPage)
	if e != nil {
		return nil, e
	}
	entries := h.revocations.Entries()
	if q.after != nil {
		entries = entries[sort.Search(len(entries), func(i int) bool { return entries[i].String() > q.after[0] }):]
	}
	out := &wire.RevocationList{Revocations: make([]wire.Revocation, min(len(entries), q.limit))}
	for i := range out.Revocations {
		out.Revocations[i] = viewRevocation(&entries[i])
	}
	if len(entries) > q.limit {
		out.NextCursor = encodeCursor("revocations", out.Revocations[q.limit-1].ID)
	}
	return out, nil
}

// lift lifts a revocation.
func (h *credentialHandlers) lift(r *http.Request) (*wire.Revocation, error) {
	id := r.PathValue("id")
	target, err := store.ParseRevocationTarget(id)
	if err != nil {
		return nil, wire.Invalid("id", "%s", err)
	}
	if e := checkTargetName(target.Kind, target.Name); e != nil {
		return nil, wire.Invalid("id", "is not the id of a revocation")
	}
	callOf(r.Context()).concerns("revocation", target.String(), target.Tenant)
	entry, ok := h.revocations.Find(target)
	if !ok {
		return nil, wire.FieldErrorf(wire.NotFound, "id", "nothing is revoked as %s; lingua revoke list shows what is", id)
	}
	switch target.Kind {
	case store.RevokedLogin:
		return nil, wire.Invalid("id", "a login that was ended stays ended: log in again")
	case store.DrainedNode:
		return nil, wire.Invalid("id", "a drain is no revocation: lingua resume %s ends it", target.Name)
	}
	if err := h.revocations.Lift(r.Context(), target, principalOf(r.Context()).Key); err != nil {
		return nil, h.storeDown("revocations", err)
	}
	lifted := viewRevocation(&entry)
	return &lifted, nil
}
