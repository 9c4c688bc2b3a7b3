package server

import (
	"cmp"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/convert"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/revocation"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// sessionHandlers list and end sessions, and mint their tokens.
type sessionHandlers struct {
	responder
	sessions    *session.Registry
	auth        *auth.Authenticator
	revocations *revocation.Follower
	peers       *peerLists
	read        *convert.Reader
	ends        sync.Map // *rate.Limiter of the sessions that each key ends, by its name
}

func (h *sessionHandlers) routes() []route {
	return []route{
		h.mintRoute(),
		{
			method: "GET", path: "/v1/sessions", rule: jobReaders, peers: true, tag: "sessions",
			summary:     "List the sessions of all instances, ordered by tenant and name",
			description: "If an instance could not be asked, or does not answer, the list is partial.",
			handler:     handle(h.responder, h.show),
			params: listParams("1000",
				param{name: "tenant_id", description: "Only sessions of this tenant.", kind: "string"},
				param{name: "search", description: "Only sessions whose name contains this.", kind: "string"},
				param{name: "language", description: "Only sessions with this language.", kind: "string"},
				param{name: "connected", description: "true: only sessions with a connected client. false: only those without.",
					kind: "boolean"},
				param{name: "instance", description: "Only sessions of this instance, by its incarnation.", kind: "string"},
				param{name: "scope", description: "here: only the sessions of this instance.", kind: "string"},
			),
		},
		{
			method: "DELETE", path: "/v1/sessions/{id}", rule: jobSenders, action: "session.end", tag: "sessions", summary: "End a session",
			description: "Every token that was minted for the session until now is revoked. The session, on whatever instance it is, " +
				"ends within a second: its pending jobs are cancelled, its connection is closed with 4410, and it cannot be resumed. A " +
				"key may end 20 sessions a second, and 200 at once. A token that is minted afterwards can start another session of the " +
				"same name.",
			handler: handle(h.responder, h.end),
			params: []param{
				idParam("The session's name."),
				{name: "tenant_id", description: "The tenant of the session, if the key has none.", kind: "string"},
			},
			codes: []wire.Code{wire.RateLimited, wire.SchedulerDependencyDown},
		},
	}
}

// show lists sessions.
func (h *sessionHandlers) show(r *http.Request) (*wire.SessionList, error) {
	q, e := parseList(r.URL.Query(), "sessions", 2, maxPage, "tenant_id", "search", "language", "connected", "instance", "scope")
	if e != nil {
		return nil, e
	}
	f, e := h.readFilter(r, q.Values)
	if e != nil {
		return nil, e
	}
	out := &wire.SessionList{Sessions: []wire.SessionInfo{}}
	instance := string(h.peers.bus.Instance())
	if f.instance == "" || f.instance == instance {
		for _, s := range h.sessions.List() {
			if f.matches(s) {
				out.Sessions = append(out.Sessions, viewSession(s, instance))
			}
		}
	}
	if q.after != nil { // the other instances do the same
		out.Sessions = slices.DeleteFunc(out.Sessions, func(s wire.SessionInfo) bool {
			return cmp.Or(cmp.Compare(s.TenantID, q.after[0]), cmp.Compare(s.SessionID, q.after[1])) <= 0
		})
	}
	more := false
	if q.Get("scope") != scopeHere {
		out.Partial, _ = fetchFromPeers(h.peers, r, func(found *wire.SessionList) {
			out.Sessions = append(out.Sessions, found.Sessions...)
			more = more || found.NextCursor != ""
		})
	}
	out.Sessions = sortSessions(out.Sessions)
	if more = more || len(out.Sessions) > q.limit; more && len(out.Sessions) > 0 {
		out.Sessions = out.Sessions[:min(len(out.Sessions), q.limit)]
		last := &out.Sessions[len(out.Sessions)-1]
		out.NextCursor = encodeCursor("sessions", last.TenantID, last.SessionID)
	}
	return out, nil
}

// sortSessions orders sessions. One that has just moved from one instance to another is listed once, by the instance to which a client is
// connected.
func sortSessions(list []wire.SessionInfo) []wire.SessionInfo {
	connectedFirst := func(s *wire.SessionInfo) int {
		if s.Connected {
			return 0
		}
		return 1
	}
	slices.SortFunc(list, func(a, b wire.SessionInfo) int {
		return cmp.Or(cmp.Compare(a.TenantID, b.TenantID), cmp.Compare(a.SessionID, b.SessionID),
			cmp.Compare(connectedFirst(&a), connectedFirst(&b)))
	})
	return slices.CompactFunc(list, func(a, b wire.SessionInfo) bool { return a.TenantID == b.TenantID && a.SessionID == b.SessionID })
}

// maxEndedSessions is how many ended sessions of a tenant are kept, until their tokens must have expired. It limits what the keys of one
// tenant can make every instance hold in memory; operators are not limited.
const maxEndedSessions = 10_000

// How many sessions a key may end, a second and at once. Every instance looks through its sessions for each, and remembers it for as long
// as tokens live.
const (
	endsPerSecond = 20
	endsAtOnce    = 200
)

// allowEnd reports whether a key may end another session now.
func (h *sessionHandlers) allowEnd(key string) bool {
	limiter, known := h.ends.Load(key)
	if !known {
		limiter, _ = h.ends.LoadOrStore(key, rate.NewLimiter(endsPerSecond, endsAtOnce))
	}
	return limiter.(*rate.Limiter).Allow()
}

// end ends a session.
func (h *sessionHandlers) end(r *http.Request) (*wire.SessionTerminated, error) {
	id, q := r.PathValue("id"), r.URL.Query()
	for name := range q {
		if name != "tenant_id" {
			return nil, wire.Invalid(name, "is not known; use tenant_id")
		}
	}
	if e := convert.CheckOptionalID("tenant_id", q.Get("tenant_id")); e != nil {
		return nil, e
	}
	tenant, e := tenantOf(r.Context(), q.Get("tenant_id"))
	if e != nil {
		return nil, e
	}
	callOf(r.Context()).concerns("session", id, tenant)
	if !h.allowEnd(principalOf(r.Context()).Key) {
		callOf(r.Context()).reason = limitEnds
		return nil, wire.Errorf(wire.RateLimited, "this key ends more than %d sessions a second: end them more slowly",
			endsPerSecond).RetryIn(time.Second)
	}
	entry := store.Revocation{
		RevocationTarget: store.RevocationTarget{Kind: store.RevokedSession, Tenant: tenant, Name: id}, Ended: true,
		By: principalOf(r.Context()).Key,
	}
	if _, again := h.revocations.Find(entry.RevocationTarget); !again && !principalOf(r.Context()).AllTenants() &&
		h.revocations.CountSessions(tenant) >= maxEndedSessions {
		return nil, wire.Errorf(wire.RateLimited,
			"%d sessions of this tenant were ended whose tokens may be alive: give tokens a shorter life, or let an operator end it",
			maxEndedSessions)
	}
	exists, err := h.sessions.Exists(r.Context(), core.SessionKey{Tenant: tenant, Name: core.SessionID(id)})
	if err == nil {
		_, err = h.revocations.Add(r.Context(), entry)
	}
	if err != nil {
		return nil, h.storeDown("end session", err)
	}
	return &wire.SessionTerminated{SessionID: id, TenantID: string(tenant), Ended: exists}, nil
}
