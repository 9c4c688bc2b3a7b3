// Package server holds the doors: it decodes what comes in, checks its form, calls whoever decides, and says
// the answer. It makes no decisions of its own.
package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/convert"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/nodeconn"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// Options is what a server needs.
type Options struct {
	Jobs    *dispatch.Dispatcher
	Nodes   *nodes.Registry
	Metrics *telemetry.Metrics
	Log     *slog.Logger
	Version wire.VersionResponse
	// Read reads requests.
	Read *convert.Reader
	// Ping reports whether the store would answer. Of its errors only a store.Trouble is told to whoever asks.
	Ping func(context.Context) error
	// Partial reports that nodes may be missing from what this instance knows of the fleet; nil: never.
	Partial func() bool
	// Heartbeat is how often nodes are asked to send one; a node silent for Presence is not online.
	Heartbeat, Presence time.Duration
	// Hub has the WebSocket connections, NodeConns those of nodes, which NodeServer serves; Sessions has the sessions.
	Hub        *socket.Hub
	NodeConns  *nodeconn.Conns
	NodeServer *nodeconn.Server
	Sessions   *session.Registry
	// Audio has the audio of jobs, AudioURLs the addresses at which nodes fetch it.
	Audio     *audio.Buffer
	AudioURLs audio.URLs
	// Instance is this incarnation of this scheduler, Bus the way to the others.
	Instance core.InstanceID
	Bus      *bus.Bus
	// Keys says who may do what.
	Keys *auth.Keys
	// FirstMessage is within what time a new connection must send its first message.
	FirstMessage time.Duration
	// SlowAfter is when a request is worth a warning.
	SlowAfter time.Duration
	// PerAddress is how many connections one address may have that are not WebSockets; 0: any number.
	PerAddress int
	// LoopbackOnly answers only to names of this machine: without keys, a page in somebody's browser must
	// not be able to reach the scheduler by pointing a name of its own at it.
	LoopbackOnly bool
}

// Server answers HTTP.
type Server struct {
	Options
	sameSite *http.CrossOriginProtection
	life     context.Context // ends with Close
	end      context.CancelFunc
	sockets  sync.WaitGroup // what runs for connections
	stopping atomic.Bool
	pings    sharedCheck
	handler  http.Handler
	// elsewhere asks other schedulers, in the name of operators: where it is sent elsewhere it does not go.
	elsewhere *http.Client
	// OpenAPI is the description of the server's routes, as YAML, made when it is first asked for.
	OpenAPI func() ([]byte, error)
}

// New makes a server.
func New(o Options) *Server {
	s := &Server{Options: o, sameSite: http.NewCrossOriginProtection()}
	s.elsewhere = &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	s.life, s.end = context.WithCancel(context.Background()) //nolint:forbidigo // connections outlive the requests that open them
	routes := s.routes()
	s.OpenAPI = sync.OnceValues(func() ([]byte, error) { return describe(routes, o.Version.Version) })
	s.handler = s.mount(routes)
	return s
}

// Close ends every connection and waits for what runs for them.
func (s *Server) Close(ctx context.Context) {
	_ = s.Hub.Close(ctx) // whoever did not say goodbye in time was cut off
	s.end()
	s.sockets.Wait()
	s.NodeServer.Close()
}

// Handler is the server as a handler.
func (s *Server) Handler() http.Handler { return s.handler }

// Unready makes /readyz say no, and every answer the last of its connection, so that nobody sends new work here.
func (s *Server) Unready() { s.stopping.Store(true) }

// Stopping reports whether it was.
func (s *Server) Stopping() bool { return s.stopping.Load() }

// HTTP makes the http.Server that serves it, with the limits that keep a slow peer from holding it up.
func (s *Server) HTTP() *http.Server {
	limit := newAddressLimit(s.PerAddress, s.Log)
	return &http.Server{
		Handler:           s.handler,
		ConnState:         limit.connState,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       bodyTimeout,
		WriteTimeout:      answerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
}

// mount makes the handler of the routes. Every path also answers to methods it does not have, and every
// other path with NOT_FOUND, in the same form as all errors.
func (s *Server) mount(routes []route) http.Handler {
	mux := http.NewServeMux()
	methods := make(map[string][]string)
	for _, r := range routes {
		mux.Handle(r.method+" "+r.path, s.guard(r.path, s.admit(r.who, r.handler)))
		methods[r.path] = append(methods[r.path], r.method)
	}
	for p, allowed := range methods {
		mux.Handle(p, s.guard(p, notAllowed(allowed)))
	}
	nowhere := s.guard("other", func(w http.ResponseWriter, _ *http.Request) {
		s.fail(w, wire.Errorf(wire.NotFound, "there is nothing at this path; /openapi.yaml lists what there is"))
	})
	mux.Handle("/", nowhere)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "//") || strings.Contains(r.URL.Path, "/.") {
			nowhere(w, r) // the mux would redirect, and a POST does not survive that
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// guard stands before every handler: it refuses names that are not this machine's when it must, and pages of
// other sites always; it keeps a panic from taking the process with it, and counts what is slow.
func (s *Server) guard(route string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		limitUnread(w, r)
		if s.stopping.Load() {
			w.Header().Set("Connection", "close") // or whoever keeps theirs would ask here again, and not who can help
		}
		defer func() {
			if p := recover(); p != nil {
				if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
					panic(p)
				}
				s.Log.Error("a handler panicked", "path", route, "panic", p, "stack", string(debug.Stack()))
				s.fail(w, wire.Errorf(wire.Internal, "something went wrong here, not with your request; it was logged"))
			}
			if took := time.Since(began); took > s.SlowAfter {
				s.Metrics.SlowPath.WithLabelValues(route).Inc()
				s.Log.Warn("slow request", "path", route, "took_ms", took.Milliseconds())
			}
		}()
		if s.LoopbackOnly && !loopbackName(r.Host) {
			s.fail(w, wire.Errorf(wire.Forbidden, "without keys this scheduler answers only to localhost and loopback addresses"))
			return
		}
		if err := s.sameSite.Check(r); err != nil {
			s.fail(w, wire.Errorf(wire.Forbidden, "a page of another site may not do this"))
			return
		}
		next(w, r)
	}
}

func loopbackName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return config.IsLoopback(host)
}

// notAllowed answers to a method a path does not have.
func notAllowed(allowed []string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for _, m := range allowed {
			w.Header().Add("Allow", m)
		}
		writeError(w, wire.Errorf(wire.MethodNotAllowed, "%s is not allowed here; use %s", r.Method, join(allowed)))
	}
}
