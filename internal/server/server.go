// Package server is the HTTP API: it decodes requests, checks their form and the caller's credential, calls the package that
// decides, and encodes the answer. It decides nothing itself.
package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/convert"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/health"
	"github.com/lingua-scheduler/lingua/internal/journal"
	"github.com/lingua-scheduler/lingua/internal/nodeconn"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/pools"
	"github.com/lingua-scheduler/lingua/internal/revocation"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/internal/stats"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/internal/tenants"
	"github.com/lingua-scheduler/lingua/wire"
)

// Options are the dependencies and the limits of a Server.
type Options struct {
	Version wire.VersionResponse
	Log     *slog.Logger
	Metrics *telemetry.Metrics
	// Bus reaches the other instances. Peers sends requests to them, PeerSecrets verify theirs.
	Bus         *bus.Bus
	Peers       *auth.PeerClient
	PeerSecrets *auth.PeerSecrets

	// Auth authenticates callers, Revocations has those that are not valid any more, and Verifier checks that the reports of nodes over
	// HTTP are theirs.
	Auth        *auth.Authenticator
	Revocations *revocation.Follower
	Verifier    *nodes.Verifier
	// NodesHaveTenants reports whether some nodes belong to one tenant only.
	NodesHaveTenants func() bool
	// Reload puts a changed configuration in force.
	Reload *config.Reloader
	// Audit records changes of state and denials in the log of the store, among others.
	Audit *journal.Audit

	// Read converts requests.
	Read  *convert.Reader
	Jobs  *dispatch.Dispatcher
	Nodes *nodes.Registry
	// Hub has the WebSocket connections, NodeConns those of nodes, which NodeServer serves; Sessions has the sessions.
	Hub        *socket.Hub
	NodeConns  *nodeconn.Conns
	NodeServer *nodeconn.Server
	Sessions   *session.Registry
	// Audio has the audio of jobs, AudioURLs the URLs at which nodes fetch it.
	Audio     *audio.Buffer
	AudioURLs audio.URLs

	// Logs has the logs of the store, Servers describes the servers of a shared one; nil: there are none. StoreHealth says whether this
	// instance can use it.
	Logs        store.Logs
	Servers     store.Inspector
	StoreHealth StoreHealth
	// Partial reports that this instance may not know all nodes of the fleet yet; nil: never.
	Partial func() bool
	// Stats has the statistics of the fleet, NodeSeries the series of the nodes, NodeTable the table of all.
	Stats      StatsReader
	NodeSeries *stats.NodeSeries
	NodeTable  *stats.NodeTable
	// Remembered has the ended jobs and the decisions that this instance remembers.
	Remembered *stats.JobRing
	// Pools counts the nodes of the capability pools.
	Pools *pools.Reader
	// Tenants has the limits of tenants, and counts what they use.
	Tenants *tenants.Gate
	// Catalog has the names and versions of services.
	Catalog *health.Catalog
	// QueuedReports is how many reports of unavailable services are queued.
	QueuedReports func() int

	// Heartbeat is how often nodes are asked to send a heartbeat. A node that is silent for Presence is not online.
	Heartbeat, Presence time.Duration
	// FirstMessage is within what time a new connection must send its first message.
	FirstMessage time.Duration
	// TokenGrace is how long a session may stay connected after its token has expired, LoginTTL how long a login lasts.
	TokenGrace, LoginTTL time.Duration
	// SlowAfter is the duration from which on a request is logged as slow.
	SlowAfter time.Duration
	// PerAddress is the maximum number of connections of one address that are not WebSockets; 0: no limit.
	PerAddress int
	// LoopbackOnly refuses requests whose Host is not a name of this machine. Without keys, a page in a browser must not reach the
	// scheduler through a DNS name that points to a loopback address (DNS rebinding).
	LoopbackOnly bool
	// BasePath is the path below which every route answers, too; empty or /: none.
	BasePath string
}

// StoreHealth says whether this instance can use the store.
type StoreHealth interface {
	// Check asks the store. The text of a store.UnavailableError is part of the answer of /readyz, no other is.
	Check(ctx context.Context) error
	// Reachable reports what the last calls of any part of the instance found, without asking.
	Reachable() bool
}

// Server is the HTTP server. It mounts the routes of its handler groups behind the checks that every request passes.
type Server struct {
	log          *slog.Logger
	metrics      *telemetry.Metrics
	hub          *socket.Hub
	slowAfter    time.Duration
	perAddress   int
	loopbackOnly bool
	crossOrigin  *http.CrossOriginProtection
	stopping     atomic.Bool
	handler      http.Handler

	audit       *auditor
	access      *accessControl
	enforcer    *enforcer
	refused     *refusedNodes
	nodes       *nodeHandlers
	jobs        *jobHandlers
	sessions    *sessionHandlers
	credentials *credentialHandlers
	operator    *operatorHandlers
	events      *eventHandlers
	stats       *statsHandlers
	status      *statusHandlers
	sockets     *socketHandlers
	docs        *docHandlers
}

// New makes a server. End it with Close.
func New(o Options) *Server {
	p := responder{log: o.Log}
	s := &Server{
		log: o.Log, metrics: o.Metrics, hub: o.Hub,
		slowAfter: o.SlowAfter, perAddress: o.PerAddress, loopbackOnly: o.LoopbackOnly,
		crossOrigin: http.NewCrossOriginProtection(),
	}
	s.audit = &auditor{recorder: o.Audit, denied: o.Metrics.Denied}
	s.access = &accessControl{
		auth: o.Auth, revocations: o.Revocations, hub: o.Hub, secrets: o.PeerSecrets, self: o.NodeConns.Address, reads: newReadLimit(),
	}
	s.enforcer = &enforcer{
		auth: o.Auth, revocations: o.Revocations, hub: o.Hub, nodes: o.NodeConns, registry: o.Nodes, sessions: o.Sessions,
	}
	s.refused = &refusedNodes{
		instance: o.Bus.Instance, registrations: o.Metrics.NodeRegistration, log: o.Log, entries: make(map[refusalKey]*refusal),
		mu:        run.NewMutex("server_refused"),
		isRevoked: func(id core.NodeID) bool { return o.Nodes.CheckName(id) != nil },
	}
	if o.NodeServer != nil {
		o.NodeServer.Refused = s.refused.record
	}
	peers := &peerLists{bus: o.Bus, client: o.Peers, log: o.Log}
	bulk := new(bulkGate)
	s.nodes = &nodeHandlers{
		responder: p, registry: o.Nodes, dispatcher: o.Jobs, verifier: o.Verifier, read: o.Read, heartbeat: o.Heartbeat,
		presence: o.Presence, series: o.NodeSeries, table: o.NodeTable, refused: s.refused, peers: peers, bulk: bulk,
	}
	s.jobs = &jobHandlers{
		responder: p, dispatcher: o.Jobs, registry: o.Nodes, verifier: o.Verifier, sessions: o.Sessions, read: o.Read, audio: o.Audio,
		urls: o.AudioURLs, ring: o.Remembered, peers: peers, bulk: bulk,
	}
	s.sessions = &sessionHandlers{
		responder: p, sessions: o.Sessions, auth: o.Auth, revocations: o.Revocations, peers: peers, read: o.Read,
	}
	s.credentials = &credentialHandlers{
		responder: p, auth: o.Auth, revocations: o.Revocations, loginTTL: o.LoginTTL, logins: newLoginLimits(),
		context: o.callerContext, audit: newAuditCopy(journal.AuditLog(o.Logs)),
	}
	s.operator = &operatorHandlers{
		responder: p, dispatcher: o.Jobs, registry: o.Nodes, bus: o.Bus, read: o.Read, catalog: o.Catalog, stats: o.Stats,
		directions: nodes.NewDirectionLists(o.Nodes), config: o.Reload, auth: o.Auth, revocations: o.Revocations,
	}
	events := journal.EventLog(o.Logs)
	s.events = &eventHandlers{
		responder: p, events: events, log: newEventCopy(events), feed: newLiveFeed(events, o.Stats), access: s.access,
		instance: o.Bus.Instance, reachable: o.StoreHealth.Reachable, stopping: &s.stopping,
		streams: newStreamLimit(maxEventStreams, "streams of events"), pages: newStreamLimit(maxLiveStreams, "open dashboards"),
	}
	s.stats = &statsHandlers{
		responder: p, stats: o.Stats, metrics: o.Metrics, bus: o.Bus, started: time.Now(), catalog: o.Catalog, queued: o.QueuedReports,
	}
	s.status = &statusHandlers{
		responder: p, version: o.Version, metrics: o.Metrics, health: o.StoreHealth, partial: o.Partial, stopping: &s.stopping,
		store: &storeInspector{store: o.Servers, work: run.NewGroup()}, revocations: o.Revocations, pools: o.Pools, tenants: o.Tenants,
		dispatcher: o.Jobs, sessions: o.Sessions, peers: peers,
	}
	s.sockets = &socketHandlers{
		hub: o.Hub, audit: s.audit, nodes: o.NodeServer, enforcer: s.enforcer, sessions: newSessionServer(&o, s.enforcer),
	}
	s.docs = newDocHandlers(p, o.Version.Version, s.routes)
	s.handler = belowBasePath(o.BasePath, s.mount(s.routes()))
	return s
}

// Close closes every connection and waits for everything that runs for them.
func (s *Server) Close(ctx context.Context) {
	_ = s.hub.Close(ctx) // connections that did not close in time were aborted
	s.sockets.close()
	s.status.store.close()
}

// EnforceRevocations ends what is open on this instance and revoked: sessions, and connections. It is to be called after every change of
// the list of revocations.
func (s *Server) EnforceRevocations() { s.enforcer.enforce() }

// Handler is the server as an http.Handler.
func (s *Server) Handler() http.Handler { return s.handler }

// OpenAPI is the OpenAPI description of the routes, as YAML.
func (s *Server) OpenAPI() ([]byte, error) { return s.docs.openAPI() }

// AsyncAPI is the AsyncAPI description of the two WebSockets, as YAML.
func (s *Server) AsyncAPI() ([]byte, error) { return s.docs.asyncAPI() }

// SetNotReady makes /readyz answer that this instance is not ready, and every answer the last of its connection, so that clients
// send new work to other instances.
func (s *Server) SetNotReady() { s.stopping.Store(true) }

// Stopping reports whether SetNotReady was called.
func (s *Server) Stopping() bool { return s.stopping.Load() }

// HTTP makes the http.Server that serves s, with limits on slow peers.
func (s *Server) HTTP() *http.Server {
	limit := newAddressLimit(s.perAddress, s.log, s.audit.connectionRefused)
	return &http.Server{
		Handler:           s.handler,
		ConnState:         limit.connState,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       bodyTimeout,
		WriteTimeout:      answerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    32 << 10,
		Protocols:         http1,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

// http1 are the protocols of the server. A WebSocket begins with an upgrade of HTTP/1.1, on the same port as everything else.
var http1 = func() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	return p
}()

// mount makes the handler of the routes. A path with another method is answered with METHOD_NOT_ALLOWED, and every other path with
// NOT_FOUND, in the same form as all errors.
func (s *Server) mount(routes []route) http.Handler {
	mux := http.NewServeMux()
	methods := make(map[string][]string)
	for i := range routes {
		r := &routes[i]
		mux.Handle(r.method+" "+r.path, s.guard(r, s.access.require(r)))
		methods[r.path] = append(methods[r.path], r.method)
	}
	for p, allowed := range methods {
		if isShadowing(p, methods) {
			continue
		}
		mux.Handle(p, s.guard(&route{method: otherMethod, path: p}, func(w http.ResponseWriter, r *http.Request) {
			methodNotAllowed(w, r, union(allowed, methods[r.URL.Path]))
		}))
	}
	notFound := s.guard(&route{method: otherMethod, path: otherPath}, func(w http.ResponseWriter, _ *http.Request) {
		writeWireError(w, wire.Errorf(wire.NotFound, "there is nothing at this path; /openapi.yaml lists what there is"))
	})
	mux.Handle("/", notFound)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "//") || strings.Contains(r.URL.Path, "/.") {
			notFound(w, r) // the mux would redirect, and clients repeat a redirected POST as GET
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// isShadowing reports whether a path is one of those that another path with a parameter stands for, as /v1/nodes/table is one of
// /v1/nodes/{id}. It has the methods of both.
func isShadowing(p string, paths map[string][]string) bool {
	at := strings.LastIndexByte(p, '/')
	_, shadows := paths[p[:at+1]+"{id}"]
	return shadows && p[at+1:] != "{id}"
}

// The method and the path of requests that no route is for.
const (
	otherMethod = "other"
	otherPath   = "other"
)

// guard wraps every handler: it gives the request an id, checks its host and origin, recovers from panics, counts slow requests and
// records the outcome.
func (s *Server) guard(route *route, next http.HandlerFunc) http.HandlerFunc {
	return func(writer http.ResponseWriter, r *http.Request) {
		started := time.Now()
		w, r := newCall(writer, r)
		limitUnreadBody(w, r)
		h := w.Header()
		h["X-Content-Type-Options"], h["Cache-Control"] = noSniff, noStore // most answers are for this caller only
		if r.TLS != nil {
			h["Strict-Transport-Security"] = onlyTLS
		}
		if s.stopping.Load() {
			w.Header().Set("Connection", "close") // a client that keeps the connection would send its next request here
		}
		defer func() {
			if p := recover(); p != nil {
				if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
					panic(p)
				}
				s.log.Error("a handler panicked", "path", route.path, "request_id", w.id, "panic", p, "stack", string(debug.Stack()))
				writeWireError(w, wire.Errorf(wire.Internal, "something went wrong here, not with your request; it was logged"))
			}
			if took := time.Since(started); took > s.slowAfter && !route.stream && !w.waits {
				s.metrics.SlowPath.WithLabelValues(route.path).Inc()
				s.log.Warn("slow request", "path", route.path, "request_id", w.id, "took_ms", took.Milliseconds())
			}
			s.audit.finish(route, w, r)
			if w.failure != nil && route.registers {
				_, name, _ := strings.Cut(w.object, "/")
				s.refused.record(r.RemoteAddr, name, w.failure)
			}
		}()
		if s.loopbackOnly && !isLoopback(r.Host) {
			w.reason = deniedHost
			writeWireError(w, wire.Errorf(wire.Forbidden, "without keys this scheduler answers only to localhost and loopback addresses"))
			return
		}
		if err := s.crossOrigin.Check(r); err != nil {
			w.reason = deniedCrossOrigin
			writeWireError(w, wire.Errorf(wire.Forbidden, "a page of another site may not do this"))
			return
		}
		next(w, r)
	}
}

func isLoopback(host string) bool { return config.IsLoopback(hostOf(host)) }

// methodNotAllowed answers requests whose method the path does not have.
func methodNotAllowed(w http.ResponseWriter, r *http.Request, allowed []string) {
	for _, m := range allowed {
		w.Header().Add("Allow", m)
	}
	writeWireError(w, wire.Errorf(wire.MethodNotAllowed, "%s is not allowed here; use %s", r.Method, strings.Join(allowed, " or ")))
}

// union returns the methods of a followed by those that only b has.
func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, m := range b {
		if !slices.Contains(all, m) {
			all = append(all, m)
		}
	}
	return all
}
