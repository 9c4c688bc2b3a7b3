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
	"time"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/convert"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/fleet"
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

// Scheduler is one instance.
type Scheduler struct {
	cfg      config.Config
	log      *slog.Logger
	storeLog []any // log attributes: where the store is

	storeHealth storeHealth

	Metrics  *telemetry.Metrics
	Store    store.Store
	Fleet    *fleet.Fleet
	Jobs     *dispatch.Dispatcher
	Nodes    *nodes.Registry
	Sessions *session.Registry
	Server   *server.Server
	Bus      *bus.Bus
	Audio    *audio.Buffer

	process
	background

	hub        *socket.Hub
	nodeConns  *nodeconn.Conns
	nodeServer *nodeconn.Server
	receiver   *bus.Receiver
	caller     *nodeconn.Callbacks
	followers
	recorders

	guards      *guards
	credentials *credentials
	revocations *revocations

	stats   *statistics
	tenants *tenants.Gate
}

// background is what runs in the background.
type background struct {
	running   context.Context // of the loops; set by Run
	takeovers sync.WaitGroup  // takeovers of dead instances that wait for their grace period
}

// followers keep this instance's view of the fleet like the store has it.
type followers struct {
	follower *fleet.Follower
	pools    *pools.Follower
}

// recorders write the logs of the store, and the traces.
type recorders struct {
	events *journal.Events
	audit  *journal.Audit
	tracer *tracing.Tracer // nil: tracing is off
}

// newRecorders makes what writes the logs and the traces.
func (s *Scheduler) newRecorders(instance core.InstanceID) (err error) {
	s.events = journal.NewEvents(instance, s.Metrics.EventsDropped, s.log)
	s.audit, err = journal.NewAudit(journal.AuditOptions{Instance: instance, Output: s.cfg.Audit.Output, Dropped: s.Metrics.AuditDropped,
		Log: s.log})
	if err == nil {
		s.tracer, err = s.newTracer(&s.cfg.Scheduler.Tracing, instance)
	}
	return err
}

// process says which program this is, and since when it runs.
type process struct {
	version string
	started time.Time
}

// New opens the store and makes a scheduler, from the store up to the HTTP server. It starts nothing. A nil transport calls
// HTTP nodes by their callback URLs.
func New(ctx context.Context, cfg config.Config, version wire.VersionResponse, log *slog.Logger, transport dispatch.Transport) (*Scheduler,
	error) {
	prefixes, err := cfg.Callback.Prefixes()
	if err != nil {
		return nil, err
	}
	c := &cfg.Scheduler
	s := &Scheduler{cfg: cfg, log: log, Metrics: telemetry.New(), process: process{version.Version, time.Now()}}
	if s.credentials, err = loadCredentials(&cfg, log); err != nil {
		return nil, err
	}
	instance := s.newIncarnation()

	if err := s.newRecorders(instance); err != nil {
		return nil, err
	}
	var emptied restorer
	if s.Store, s.storeLog, err = openStore(ctx, &cfg, s.Metrics, s.events, emptied.restore, &s.storeHealth, log); err != nil {
		return nil, err
	}
	s.tenants, s.revocations = newTenants(c, s.credentials.reloader, s.Store, s.Metrics), newRevocations(s.credentials, s.Store, log)
	busCfg := busConfig(c, instance)
	busCfg.About, busCfg.Events = s.describe, s.events
	s.Bus = bus.New(busCfg, s.Store, s.Metrics, log)
	if err := s.newFleet(ctx); err != nil {
		return nil, errors.Join(err, s.Store.Close())
	}
	picker := pick.New(s.Fleet, pickPolicy(c), nil)

	s.caller = nodeconn.NewCallbacks(nodeconn.CallbackConfig{Allowed: prefixes, Secret: []byte(cfg.Callback.Secret)})
	if transport == nil {
		transport = s.caller
	}
	urls := audio.URLs{Signer: auth.Signer(rand.Text())} // only this instance verifies what it signs
	s.Audio = audio.NewBuffer(int64(c.Sessions.AudioBufferMB) << 20)
	sessionCfg := sessionConfig(c, instance)
	sessionCfg.Revocations, sessionCfg.Tracer, sessionCfg.Tenants = s.revocations, s.tracer, s.tenants
	directory := session.NewDirectory(sessionCfg, s.Store, s.Bus, s.Audio, &s.Metrics.Sessions, log)
	s.nodeConns = nodeconn.NewConns(nodeconn.Options{
		HTTP: transport, Audio: s.Audio, URLs: urls, Bus: s.Bus, Owner: s.ownerOf, ACKTimeout: c.Dispatch.ACKTimeoutMS.Duration(),
		Tracer: s.tracer,
	})
	if s.guards, err = s.newGuards(c); err != nil {
		return nil, errors.Join(err, s.Store.Close())
	}
	s.stats = s.newStats(c, instance)
	s.Jobs = s.newDispatcher(instance, picker, directory)
	emptied.jobs.Store(s.Jobs)
	nodesCfg := nodesConfig(c, instance)
	nodesCfg.Events, nodesCfg.Unavailable, nodesCfg.RequireSecret, nodesCfg.Revocations = s.events, s.guards.unavailable,
		cfg.Auth.NodeSecretRequired(), s.revocations
	s.Nodes = nodes.New(nodesCfg, s.Store, s.Fleet, nodes.JobsOf(s.Jobs), s.Metrics, log)
	s.follower = s.newFollower()
	s.Sessions = session.NewRegistry(directory, s.Jobs)

	s.receiver = bus.NewReceiver(s.Bus, messageHandlers(s), s.takeOver)
	s.hub = socket.NewHub(socket.Options{PerAddress: c.Sessions.PerAddress, Origins: c.Sessions.Origins, Ended: s.countClose, Log: log})
	read := convert.NewReader(s.caller.Check)
	s.nodeServer = nodeconn.NewServer(nodeconn.ServerOptions{
		Instance: instance, Conns: s.nodeConns, Jobs: s.Jobs, Nodes: s.Nodes, Sessions: s.Sessions, Read: read, Log: log,
		HeartbeatInterval: c.Nodes.HeartbeatIntervalMS.Duration(), Presence: c.Nodes.PresenceTTLMS.Duration(),
		FirstMessage: firstMessageTimeout, Grace: c.Sessions.DisconnectGraceMS.Duration(),
	})
	verifier := &nodes.Verifier{Fleet: s.Fleet, Nodes: s.Store, RequireSecret: nodesCfg.RequireSecret}
	inspector, _ := s.Store.(store.Inspector) // nil: memory has no servers
	s.Server = server.New(server.Options{
		Auth: s.credentials.auth, Access: server.Access{
			Verifier: verifier, TokenGrace: cfg.Auth.SessionGraceSeconds.Duration(), LoginTTL: cfg.Auth.LoginSeconds.Duration(),
			Audit: s.audit, AuditLog: journal.AuditLog(s.Store), Revocations: s.revocations.Follower,
			PeerSecrets: s.credentials.peerSecrets, Peers: s.credentials.peerClient(instance), Reload: s.credentials.reloader,
			NodesHaveTenants: func() bool { return s.Fleet.Divided().HasTenants() },
		},
		Bus: s.Bus, Read: read, Audio: s.Audio, AudioURLs: urls,
		Hub: s.hub, NodeConns: s.nodeConns, NodeServer: s.nodeServer, Sessions: s.Sessions,
		Jobs: s.Jobs, Nodes: s.Nodes, Catalog: s.guards.catalog, Events: journal.EventLog(s.Store),
		Figures: server.Figures{Stats: s.stats.reader, NodeSeries: s.stats.series,
			NodeTable: stats.NewNodeTable(s.Fleet, s.stats.series, c.Nodes.PresenceTTLMS.Duration()),
			Pools:     pools.NewReader(s.pools, picker, s.Store), Tenants: s.tenants, Store: inspector},
		QueuedReports: s.guards.unavailable.Queued, Metrics: s.Metrics, Log: log, Version: version,
		StoreHealth: &s.storeHealth, Partial: s.Fleet.Partial,
		Heartbeat: c.Nodes.HeartbeatIntervalMS.Duration(), Presence: c.Nodes.PresenceTTLMS.Duration(),
		Limits: serverLimits(&cfg, s.credentials.auth.Keyring().Empty()),
	})
	_ = s.revocations.Read(ctx) // after an error this instance is not ready, and refuses requests, until the follower has read them
	s.revocations.OnChange(s.enforceRevocations)
	s.credentials.replaced = s.Server.CloseRemovedKeys
	s.warnOfUnsetKeys()
	s.registerMetrics()
	return s, nil
}

// newDispatcher makes what gives jobs to nodes.
func (s *Scheduler) newDispatcher(instance core.InstanceID, picker *pick.Picker, outcomes dispatch.Outcomes) *dispatch.Dispatcher {
	cfg := dispatchConfig(&s.cfg.Scheduler, instance)
	cfg.Observer, cfg.Ring, cfg.Tracer, cfg.Tenants = s.stats.counter, stats.NewJobRing(), s.tracer, s.tenants
	cfg.MissedACKs, cfg.Events, cfg.StoreReachable = s.nodeConns.MissedACKs, s.events, s.storeHealth.Reachable
	cfg.HasAudio, cfg.Fence, cfg.Shared = s.Audio.Has, s.fence(), s.Store.Shared()
	cfg.Bus = s.Bus
	return dispatch.New(cfg, s.Store, s.Fleet, picker, s.nodeConns, outcomes, s.Metrics, s.log)
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
	loopsEnded.Go(func() {
		telemetry.NewLockWaits(&s.Metrics.Locks, s.cfg.Scheduler.Observability.LockWaitWarnMS.Duration(), s.log).Run(loops)
	})
	loopsEnded.Go(func() { s.receiver.Run(loops) })
	loopsEnded.Go(func() { s.follower.Run(loops) })
	loopsEnded.Go(func() { s.revocations.Run(loops) })
	loopsEnded.Go(func() { s.pools.Run(loops) })
	loopsEnded.Go(func() { s.stats.run(loops) })
	loopsEnded.Go(func() { s.removeRevokedNodes(loops) })
	loopsEnded.Go(func() { s.Nodes.EvictSilent(loops) })
	loopsEnded.Go(func() { s.Jobs.WatchSilent(loops) })
	loopsEnded.Go(func() { s.Jobs.RenewTenants(loops) })
	loopsEnded.Go(func() { s.Sessions.RenewTenants(loops) })
	loopsEnded.Go(func() { s.hub.Run(loops) })
	loopsEnded.Go(func() { s.nodeServer.WatchPresence(loops) })
	loopsEnded.Go(func() { s.nodeServer.WatchSilence(loops) })
	loopsEnded.Go(func() { s.guards.run(loops) })
	loopsEnded.Go(func() { s.events.Run(loops, s.Store) })
	loopsEnded.Go(func() { s.audit.Run(loops, s.Store) })
	loopsEnded.Go(func() { s.ExportTraces(loops) })
	s.events.Record(store.Event{Kind: store.EventInstanceStarted, Detail: s.version})

	srv := s.Server.HTTP()
	served := make(chan error, 1)
	loopsEnded.Go(func() { served <- s.serve(srv, l) })
	s.log.Info("listening", append([]any{"address", l.Addr().String(), "tls", s.credentials.certificate != nil, "instance",
		s.Bus.Instance(), "advertise_url", s.nodeConns.Address()}, s.storeLog...)...)

	var failure error
	select {
	case <-ctx.Done():
	case failure = <-served:
	}
	s.stop(context.WithoutCancel(ctx), srv)
	stopLoops()
	loopsEnded.Wait()
	s.takeovers.Wait()
	s.caller.Close()
	s.leave(context.WithoutCancel(ctx))
	if failure != nil && !errors.Is(failure, http.ErrServerClosed) {
		return errors.Join(fmt.Errorf("cannot serve: %w", failure), s.Store.Close())
	}
	return s.Store.Close()
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
