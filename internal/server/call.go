package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/journal"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/wirespec"
	"github.com/lingua-scheduler/lingua/wire"
)

// requestIDHeader is the header with the id of a request: the caller's, if it is a valid identifier, or one that is made.
const requestIDHeader = "X-Request-Id"

// call is a request while it is handled: who sent it, and how it ended. It is the request's response writer, and in its context.
type call struct {
	http.ResponseWriter
	context callContext
	header  [1]string // the header with the id
	id      string
	caller  *auth.Principal // nil: not authenticated
	status  int

	failure *wire.Error // with which it was answered
	reason  string      // why it was denied or failed, if the failure does not say it

	action string        // what it does, if the route does not say it
	dryRun bool          // it changes nothing, although its route does
	object string        // what it changes, if the path does not say it
	tenant core.TenantID // of that

	text textChoice // whether it wants to have what was said
	page bool       // a page sent it

	waits bool // for a slot, as long as the caller wants: it is not slow

	traceparent string // the trace context that the caller sent; it may be invalid
}

type callKey struct{}

// callContext is the context of a request with its call. It is a part of the call, so that it costs no allocation.
type callContext struct {
	context.Context
	call *call
}

// Value implements context.Context.
func (c *callContext) Value(key any) any {
	if key == (callKey{}) {
		return c.call
	}
	return c.Context.Value(key)
}

// newCall makes the call of a request, and returns the request with it in its context.
func newCall(w http.ResponseWriter, r *http.Request) (*call, *http.Request) {
	c := &call{ResponseWriter: w, id: r.Header.Get(requestIDHeader), traceparent: r.Header.Get(wire.TraceparentHeader), page: isPage(r)}
	if !core.ValidID(c.id) {
		c.id = string(newRequestID())
	}
	c.header[0] = c.id
	w.Header()[requestIDHeader] = c.header[:]
	c.context = callContext{r.Context(), c}
	return c, r.WithContext(&c.context)
}

// callOf is the call of a request.
func callOf(ctx context.Context) *call { return ctx.Value(callKey{}).(*call) }

// principalOf is the caller of a request that a rule has admitted.
func principalOf(ctx context.Context) *auth.Principal { return callOf(ctx).caller }

// WriteHeader implements http.ResponseWriter.
func (c *call) WriteHeader(status int) {
	c.status = status
	c.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (c *call) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// fail records that the call fails, for a reason that the error does not say.
func (c *call) fail(e *wire.Error, reason string) { c.failure, c.reason = e, reason }

// concerns records what the call changes: an id that was checked, and its tenant.
func (c *call) concerns(kind, id string, tenant core.TenantID) {
	c.object, c.tenant = kind+"/"+id, tenant
}

// isDenial reports whether an error says that the caller may not do what it asked for, or not that often.
func isDenial(e *wire.Error) bool {
	return e != nil && (e.Code == wire.Unauthorized || e.Code == wire.Forbidden || e.Code == wire.RateLimited)
}

// Why requests are denied, beside the reasons of package auth.
const (
	deniedHost        = "host"         // without keys, the request is not for this machine
	deniedCrossOrigin = "cross_origin" // a page of another site
	deniedOrigin      = "origin"       // a WebSocket of a page whose origin is not allowed
	deniedAudioURL    = "audio_url"    // the signed URL is not valid
	deniedResumeToken = "resume_token" // of another session, or of none
	deniedOther       = "other"
	// The limits.
	limitConnections = "connections" // of an address
	limitSockets     = "sockets"     // of an address
	limitNodes       = "nodes"       // of a key
	limitLogins      = "logins"      // of an address that failed
	limitBulk        = "bulk"        // of actions on many objects at a time
	limitTenant      = "tenant"      // of a tenant, by its configuration
	limitEnds        = "ends"        // of sessions that a key ends
	limitReads       = "reads"       // of lists, logs and figures at a time
)

// denialReasons are the reasons of errors by their code and field, for those that handlers return.
var denialReasons = map[wire.Code]map[string]string{
	wire.Unauthorized: {"": string(auth.Unknown)},
	wire.Forbidden: {
		"node_id": string(auth.WrongNode), "tenant_id": string(auth.WrongTenant), "session_id": string(auth.WrongObject),
		"node_token":   string(auth.NodeSecret),
		"resume_token": deniedResumeToken,
	},
	wire.RateLimited: {"node_id": limitNodes},
}

func denialReason(e *wire.Error) string { return cmp.Or(denialReasons[e.Code][e.Field], deniedOther) }

// auditor makes the audit entries of requests, and counts denials.
type auditor struct {
	recorder *journal.Audit
	denied   *prometheus.CounterVec
}

// finish records a call that has been handled: a change of state, or a denial.
func (a *auditor) finish(r *route, c *call, req *http.Request) {
	action := cmp.Or(c.action, r.action)
	if (action == "" || c.dryRun) && !isDenial(c.failure) {
		return
	}
	e := store.AuditEntry{Action: cmp.Or(action, r.method+" "+r.path), Object: c.object, Tenant: c.tenant}
	if id := req.PathValue("id"); e.Object == "" && core.ValidID(id) {
		kind, _, _ := strings.Cut(r.action, ".")
		e.Object = cmp.Or(kind, r.tag) + "/" + id
	}
	a.record(&e, caller{c.caller, c.id, journal.AddressOf(req.RemoteAddr)}, c.failure, c.reason)
}

// caller is who does something, for an audit entry.
type caller struct {
	*auth.Principal // nil: not authenticated
	request         string
	address         string
}

// record completes an entry and records it. e is the error with which it ended, reason says more than the error.
func (a *auditor) record(entry *store.AuditEntry, by caller, e *wire.Error, reason string) {
	entry.Outcome, entry.Request, entry.Address = store.AuditOK, by.request, by.address
	if p := by.Principal; p != nil {
		entry.Key, entry.Role = p.Key, string(p.Role)
		if !p.AllTenants() || entry.Tenant == "" {
			entry.Tenant = p.Tenant
		}
	}
	switch {
	case isDenial(e):
		entry.Outcome, entry.Reason = store.AuditDenied, cmp.Or(reason, denialReason(e))
		a.denied.WithLabelValues(strconv.Itoa(wirespec.Status(e.Code)), entry.Reason).Inc()
	case e != nil:
		entry.Outcome, entry.Reason = store.AuditFailed, cmp.Or(reason, string(e.Code))
	case reason != "":
		entry.Outcome, entry.Reason = store.AuditFailed, reason
	}
	a.recorder.Record(*entry)
}

// connectionRefused records that a connection was refused because its address has too many.
func (a *auditor) connectionRefused(address string) {
	a.record(&store.AuditEntry{Action: "connect"}, caller{address: address}, wire.Errorf(wire.RateLimited, ""), limitConnections)
}

// refusedSocket records why a WebSocket was refused by its handshake.
func (c *call) refusedSocket(err error) {
	var e *wire.Error
	if !errors.As(err, &e) {
		return
	}
	reason := ""
	switch e.Code {
	case wire.Forbidden:
		reason = deniedOrigin
	case wire.RateLimited:
		reason = limitSockets
	}
	c.fail(e, reason)
}

// socketAudit records what is done over one WebSocket.
type socketAudit struct {
	*auditor
	by caller
}

// of returns what records the messages of the WebSocket that a call opens.
func (a *auditor) of(c *call, r *http.Request) *socketAudit {
	return &socketAudit{a, caller{c.caller, c.id, journal.AddressOf(r.RemoteAddr)}}
}

// record records an action over the socket, on an object and its tenant, with the error by which it failed. An id that is not valid is left
// out.
func (s *socketAudit) record(action, id string, tenant core.TenantID, e *wire.Error) {
	s.auditor.record(socketEntry(action, id, tenant), s.by, e, "")
}

// deny records that a credential that came over the socket is not valid.
func (s *socketAudit) deny(action, id string, reason auth.Reason) {
	s.auditor.record(socketEntry(action, id, ""), s.by, wire.Errorf(wire.Unauthorized, ""), string(reason))
}

func socketEntry(action, id string, tenant core.TenantID) *store.AuditEntry {
	entry := store.AuditEntry{Action: action, Tenant: tenant}
	if core.ValidID(id) {
		kind, _, _ := strings.Cut(action, ".")
		entry.Object = kind + "/" + id
	}
	return &entry
}
