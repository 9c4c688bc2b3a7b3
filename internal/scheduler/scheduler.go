// Package scheduler wires one scheduler instance: the Scheduler struct lists every part, New makes them from the store up to
// the HTTP server, and Run starts and stops them.
package scheduler

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
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
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/health"
	"github.com/lingua-scheduler/lingua/internal/journal"
	"github.com/lingua-scheduler/lingua/internal/nodeconn"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/pick"
	"github.com/lingua-scheduler/lingua/internal/pools"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/server"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/internal/stats"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/internal/tenants"
	"github.com/lingua-scheduler/lingua/internal/tracing"
	"github.com/lingua-scheduler/lingua/wire"
)

// Scheduler is one instance: its parts, in the order in which New makes them.
type Scheduler struct {
	cfg      config.Config
	log      *slog.Logger
	version  wire.VersionResponse
	started  time.Time
	instance core.InstanceID // this incarnation

	Metrics     *telemetry.Metrics
	credentials *credentials
	events      *journal.Events
	audit       *journal.Audit
	tracer      *tracing.Tracer // nil: tracing is off
	Store       store.Store
	storeLog    []any // log attributes: where the store is
	storeHealth storeHealth
	restorer    atomic.Pointer[dispatch.Dispatcher] // after the store was emptied; the store is made before it
	tenants     *tenants.Gate
	revocations *revocations
	Bus         *bus.Bus
	Fleet       *fleet.Fleet
	pools       *pools.Follower
	picker      *pick.Picker
	callbacks   *nodeconn.Callbacks
	Audio       *audio.Buffer
	nodeConns   *nodeconn.Conns
	catalog     *health.Catalog
	unavailable *health.UnavailableWorker
	Stats       *stats.Stats
	Jobs        *dispatch.Dispatcher
	Nodes       *nodes.Registry
	follower    *fleet.Follower
	Sessions    *session.Registry
	receiver    *bus.Receiver
	hub         *socket.Hub
	nodeServer  *nodeconn.Server
	Server      *server.Server

	running   context.Context // of the loops; set by Run
	takeovers sync.WaitGroup  // of dead instances, that wait for their grace period
}

// New opens the store and makes a scheduler, from the store up to the HTTP server. It starts nothing. A nil transport calls
// HTTP nodes by their callback URLs.
func New(ctx context.Context, cfg config.Config, version wire.VersionResponse, log *slog.Logger, transport dispatch.Transport) (*Scheduler,
	error) {
	prefixes, err := cfg.Callback.Prefixes()
	if err != nil {
		return nil, err
	}
	s := &Scheduler{
		cfg: cfg, log: log, version: version, started: time.Now(), instance: newIncarnation(&cfg.Scheduler), Metrics: telemetry.New(),
	}
	if s.credentials, err = loadCredentials(&cfg, log); err != nil {
		return nil, err
	}
	s.events = journal.NewEvents(s.instance, s.Metrics.EventsDropped, log)
	if s.audit, err = journal.NewAudit(s.auditOptions()); err != nil {
		return nil, err
	}
	if s.tracer, err = s.newTracer(); err != nil {
		return nil, err
	}
	if err := s.openStore(ctx); err != nil {
		return nil, err
	}
	s.tenants = newTenants(&cfg.Scheduler, s.credentials.reloader, s.Store, s.Metrics)
	s.revocations = newRevocations(s.credentials, s.Store, log)
	s.Bus = bus.New(s.busConfig(), s.Store, s.Metrics, log)
	s.Fleet = fleet.New(cfg.Scheduler.Nodes.PresenceTTLMS.Duration())
	if err := s.followPools(ctx); err != nil {
		return nil, errors.Join(err, s.Store.Close())
	}
	s.picker = pick.New(s.Fleet, pickPolicy(&cfg.Scheduler), nil)

	s.callbacks = nodeconn.NewCallbacks(nodeconn.CallbackConfig{Allowed: prefixes, Secret: []byte(cfg.Callback.Secret)})
	if transport == nil {
		transport = s.callbacks
	}
	urls := audio.URLs{Signer: auth.Signer(rand.Text())} // only this instance verifies what it signs
	s.Audio = audio.NewBuffer(int64(cfg.Scheduler.Sessions.AudioBufferMB) << 20)
	directory := session.NewDirectory(s.sessionConfig(), s.Store, s.Bus, s.Audio, &s.Metrics.Sessions, log)
	s.nodeConns = nodeconn.NewConns(s.connOptions(transport, urls))
	if s.catalog, err = health.NewCatalog(s.catalogOptions()); err != nil {
		return nil, errors.Join(err, s.Store.Close())
	}
	s.unavailable = health.NewUnavailableWorker(s.unavailableOptions())
	s.Stats = stats.New(s.statsOptions())
	s.Jobs = dispatch.New(s.dispatchConfig(), s.Store, s.Fleet, s.picker, s.nodeConns, directory, s.Metrics, log)
	s.restorer.Store(s.Jobs)
	s.Nodes = nodes.New(s.nodesConfig(), s.Store, s.Fleet, nodes.JobsOf(s.Jobs), s.Metrics, log)
	s.follower = s.newFollower()
	s.Sessions = session.NewRegistry(directory, s.Jobs)

	s.receiver = bus.NewReceiver(s.Bus, messageHandlers(s), s.takeOver)
	s.hub = socket.NewHub(s.hubOptions())
	read := convert.NewReader(s.callbacks.Check)
	s.nodeServer = nodeconn.NewServer(s.nodeServerOptions(read))
	s.Server = server.New(s.serverOptions(read, urls))
	_ = s.revocations.Read(ctx) // after an error this instance is not ready, and refuses requests, until the follower has read them
	s.revocations.OnChange(s.enforceRevocations)
	s.credentials.replaced = s.Server.CloseRemovedKeys
	s.warnOfUnsetKeys()
	s.registerMetrics()
	return s, nil
}

// warnOfUnsetKeys logs what the configuration leaves to a default that its author may not expect.
func (s *Scheduler) warnOfUnsetKeys() {
	if s.credentials.auth.Keyring().Empty() {
		return
	}
	if s.Store.Shared() && len(s.cfg.Auth.ClusterSecrets) == 0 {
		s.log.Warn("auth.cluster_secret is not set: other instances are not asked for the jobs that ended there, and lists of jobs are " +
			"partial; set the same secret on all instances")
	}
	if s.cfg.Auth.RequireNodeSecret == nil {
		s.log.Warn("auth.require_node_secret is not set: with keys it is true, and HTTP nodes must send the node_token of their " +
			"registration; false accepts reports without it")
	}
}

// ReopenAudit opens the audit file again, after it was renamed by a log rotation.
func (s *Scheduler) ReopenAudit() error { return s.audit.Reopen() }

// Listen opens the scheduler's port.
func (s *Scheduler) Listen(ctx context.Context) (net.Listener, error) {
	// 0.0.0.0 means IPv4; Go would listen on [::] as well.
	network := "tcp"
	if ip := net.ParseIP(s.cfg.Server.Host); ip != nil && ip.To4() != nil {
		network = "tcp4"
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, network, s.cfg.Server.Address())
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", s.cfg.Server.Address(), err)
	}
	s.advertise(ctx, l.Addr())
	return l, nil
}

// Run serves until the context ends and then stops gracefully: no new slots are granted, in-flight jobs may end, and those that
// do not end in time stay as the store has them.
func (s *Scheduler) Run(ctx context.Context, l net.Listener) error {
	loops, stopLoops := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLoops()
	var loopsEnded sync.WaitGroup
	if s.Store.Shared() { // from the announcement on others may take this instance for dead
		detector := suspensionDetector{ttl: s.cfg.Scheduler.Phase2.HeartbeatTTLSeconds.Duration(), now: time.Now}
		began := time.Now()
		loopsEnded.Go(func() { detector.watch(loops, began, s.logSuspension) })
	}
	if err := s.Bus.Announce(loops); err != nil {
		stopLoops()
		loopsEnded.Wait()
		return errors.Join(fmt.Errorf("cannot announce this instance: %w", err), l.Close(), s.Store.Close())
	}
	s.running = loops
	s.Fleet.SetPartial(s.Store.Shared()) // a shared store may have nodes: until the follower has read them this instance is not ready
	for _, loop := range s.loops() {
		loopsEnded.Go(func() { loop(loops) })
	}
	s.events.Record(store.Event{Kind: store.EventInstanceStarted, Detail: s.version.Version})

	srv := s.Server.HTTP()
	served := make(chan error, 1)
	loopsEnded.Go(func() { served <- s.serve(srv, l) })
	s.log.Info("listening", append([]any{"address", l.Addr().String(), "tls", s.credentials.certificate != nil, "instance",
		s.instance, "advertise_url", s.nodeConns.Address()}, s.storeLog...)...)

	var failure error
	select {
	case <-ctx.Done():
	case failure = <-served:
	}
	s.stop(context.WithoutCancel(ctx), srv)
	stopLoops()
	loopsEnded.Wait()
	s.takeovers.Wait()
	s.callbacks.Close()
	s.leave(context.WithoutCancel(ctx))
	if failure != nil && !errors.Is(failure, http.ErrServerClosed) {
		return errors.Join(fmt.Errorf("cannot serve: %w", failure), s.Store.Close())
	}
	return s.Store.Close()
}

// loops returns what runs in the background from the announcement of this instance until it has stopped.
func (s *Scheduler) loops() []func(context.Context) {
	lockWaits := telemetry.NewLockWaits(&s.Metrics.Locks, s.cfg.Scheduler.Observability.LockWaitWarnMS.Duration(), s.log)
	return []func(context.Context){
		lockWaits.Run,
		s.receiver.Run,
		s.follower.Run,
		s.revocations.Run,
		s.pools.Run,
		s.Stats.Run,
		s.Metrics.DispatchRate.Run,
		s.removeRevokedNodes,
		s.Nodes.EvictSilent,
		s.Jobs.WatchSilent,
		s.Jobs.RenewTenants,
		s.Sessions.RenewTenants,
		s.hub.Run,
		s.nodeServer.WatchPresence,
		s.nodeServer.WatchSilence,
		s.catalog.Run,
		s.unavailable.Run,
		func(ctx context.Context) { s.events.Run(ctx, s.Store) },
		func(ctx context.Context) { s.audit.Run(ctx, s.Store) },
		s.ExportTraces,
	}
}

// stop stops the scheduler within the configured time.
func (s *Scheduler) stop(ctx context.Context, srv *http.Server) {
	deadline, cancel := context.WithTimeout(ctx, s.cfg.Server.ShutdownSeconds.Duration())
	defer cancel()
	s.Server.SetNotReady()
	_ = s.Bus.Announce(deadline) // that it drains; if that fails, the next renewal announces it
	if s.hasPeers(deadline) {    // load balancers notice before dispatches are refused
		run.Sleep(deadline, min(s.cfg.Server.DrainDelayMS.Duration(), s.cfg.Server.ShutdownSeconds.Duration()/2))
	}
	// Before the connections are asked to go away. Utterances of sessions that are still connected are dispatched as usual.
	s.Jobs.Leave()
	s.events.Record(store.Event{Kind: store.EventInstanceStopping})
	s.log.Info("stopping: no new jobs are granted", "in_flight", s.Jobs.InFlight(), "sessions", s.Sessions.Len(), "nodes",
		s.nodeConns.Len())
	const reason = "this instance is stopping"
	goAway := min(s.cfg.Server.ShutdownSeconds.Duration()/2, maxGoAway)
	var leaving sync.WaitGroup
	leaving.Go(func() { s.Sessions.GoAway(deadline, reason, goAway) })
	if s.hasPeers(deadline) { // nodes keep their jobs when they reconnect to an instance that does not stop, too
		leaving.Go(func() { s.nodeConns.GoAway(deadline, reason, goAway) })
	}
	leaving.Wait()
	// Nodes must still be able to report while their jobs end.
	if left := s.Jobs.Drain(deadline); left > 0 {
		s.log.Warn("jobs in flight did not end in time", "left", left)
	}
	s.nodeConns.GoAway(deadline, reason, 0)
	if err := srv.Shutdown(deadline); err != nil {
		_ = srv.Close() // its error only reports the connections that it cut
	}
	s.Server.Close(deadline)
	s.Sessions.Close()
	s.Jobs.Close()
	s.log.Info("stopped")
}
