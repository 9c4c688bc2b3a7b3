// Package scheduler is one scheduler, wired: its struct lists every part, and New is the one place where they
// are put together.
package scheduler

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/callback"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/convert"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/nodeconn"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/pick"
	"github.com/lingua-scheduler/lingua/internal/server"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// Scheduler is one running instance.
type Scheduler struct {
	cfg  config.Config
	log  *slog.Logger
	kept []any // where the shared truth is, for the log

	Metrics  *telemetry.Metrics
	Store    store.Store
	Fleet    *fleet.Fleet
	Jobs     *dispatch.Dispatcher
	Nodes    *nodes.Registry
	Sessions *session.Registry
	Server   *server.Server
	Bus      *bus.Bus
	Audio    *audio.Buffer

	version string
	started time.Time
	life    context.Context // of what runs in the background; set by Run
	later   sync.WaitGroup  // what is done a while after an instance is gone

	hub       *socket.Hub
	nodeConns *nodeconn.Conns
	receiver  *bus.Receiver
	follower  *fleet.Follower
	caller    *callback.Caller
}

// New opens the store and makes a scheduler, from the store up to the HTTP server. It serves nothing yet. A nil transport calls
// HTTP nodes by their callback URLs.
func New(ctx context.Context, cfg config.Config, version wire.VersionResponse, log *slog.Logger, transport dispatch.Transport) (*Scheduler, error) {
	prefixes, err := cfg.Callback.Prefixes()
	if err != nil {
		return nil, err
	}
	keys, err := cfg.Auth.Keys()
	if err != nil {
		return nil, err
	}
	c := &cfg.Scheduler
	s := &Scheduler{cfg: cfg, log: log, Metrics: telemetry.New(), version: version.Version, started: time.Now()}
	instance := s.incarnation()

	if s.Store, s.kept, err = openStore(ctx, &cfg, s.Metrics, log); err != nil {
		return nil, err
	}
	p2 := &c.Phase2
	s.Bus = bus.New(bus.Config{
		Instance: instance, TTL: p2.HeartbeatTTLSeconds.Duration(), Block: p2.StreamBlockMS.Duration(), Keep: p2.DLQTTLSeconds.Duration(), About: s.about,
	}, s.Store, s.Metrics, log)
	s.Fleet = fleet.New(c.Nodes.PresenceTTLMS.Duration())
	picker := pick.New(s.Fleet, pick.Policy{
		SampleK: c.Dispatch.SampleK, ScanMax: c.Dispatch.ScanMax, StaleAfter: c.Dispatch.HeartbeatStaleMS.Duration(),
		Shuffle: c.Dispatch.CandidateShuffle,
		CPUMax:  c.ResourceLimits.CPUMax, GPUMax: c.ResourceLimits.GPUMax, MemoryMax: c.ResourceLimits.MemoryMax,
	}, nil)

	s.caller = callback.New(callback.Config{Allowed: prefixes, Secret: []byte(cfg.Callback.Secret)})
	if transport == nil {
		transport = s.caller
	}
	signer := auth.Signer(cmp.Or(cfg.Auth.SessionSecret, rand.Text()))
	urls := audio.URLs{Signer: signer}
	s.Audio = audio.NewBuffer(int64(c.Sessions.AudioBufferMB) << 20)
	directory := session.NewDirectory(sessionConfig(c, instance), s.Store, s.Bus, s.Audio, &s.Metrics.Sessions, log)
	s.nodeConns = nodeconn.NewConns(nodeconn.Options{
		HTTP: transport, Audio: s.Audio, URLs: urls, Bus: s.Bus, Owner: s.owner, ACKTimeout: c.Dispatch.ACKTimeoutMS.Duration(),
	})
	s.Jobs = dispatch.New(dispatch.Config{
		Instance: instance, HasAudio: s.Audio.Has, Fence: s.fence(), DecideWithin: c.Dispatch.DecideWithinMS.Duration(),
		ACKTimeout: c.Dispatch.ACKTimeoutMS.Duration(), AttemptTimeout: c.Dispatch.AttemptTimeoutMS.Duration(),
		JobTimeout: c.Dispatch.JobTimeoutMS.Duration(), MaxRetry: c.Dispatch.MaxRetry, AudioGrace: c.Sessions.ResumeSeconds.Duration(), SpreadWindow: spreadWindow(c.TaskBinding),
	}, s.Store, s.Fleet, picker, s.nodeConns, directory, s.Metrics, log)
	s.Nodes = nodes.New(nodes.Config{
		Instance: instance, Heartbeat: c.Nodes.HeartbeatIntervalMS.Duration(), Presence: c.Nodes.PresenceTTLMS.Duration(),
		Retention: c.Nodes.RetentionSeconds.Duration(),
		MarkFor:   c.ModelNotAvailable.MarkTTLSeconds.Duration(), MarkRate: c.ModelNotAvailable.NodeRatePerMinute,
	}, s.Store, s.Fleet, s.Jobs, s.Metrics, log)
	s.follower = &fleet.Follower{Fleet: s.Fleet, Nodes: s.Store, Marks: s.Store, Log: log, OnSilent: s.Nodes.MoveJobsOfSilent}
	s.Sessions = session.NewRegistry(directory, s.Jobs)

	handlers := s.nodeConns.Handlers(s.Jobs)
	maps.Copy(handlers, s.Sessions.Handlers())
	s.receiver = bus.NewReceiver(s.Bus, handlers, s.takeOver)
	s.hub = socket.NewHub(socket.Options{PerAddress: c.Sessions.PerAddress, Origins: c.Sessions.Origins, Ended: s.closed, Log: log})
	read := convert.NewReader(s.caller.Check)
	nodeServer := nodeconn.NewServer(nodeconn.ServerOptions{
		Instance: instance, Conns: s.nodeConns, Jobs: s.Jobs, Nodes: s.Nodes, Sessions: s.Sessions, Read: read, Signer: signer, Log: log,
		HeartbeatInterval: c.Nodes.HeartbeatIntervalMS.Duration(), FirstMessage: firstMessage, Grace: c.Sessions.DisconnectGraceMS.Duration(),
	})
	s.Server = server.New(server.Options{
		Instance: instance, Bus: s.Bus, Read: read, Audio: s.Audio, AudioURLs: urls,
		Hub: s.hub, NodeConns: s.nodeConns, NodeServer: nodeServer, Sessions: s.Sessions, Keys: keys, FirstMessage: firstMessage,
		Jobs: s.Jobs, Nodes: s.Nodes, Metrics: s.Metrics, Log: log, Version: version,
		Ping: (&doctor{ping: s.Store.Ping}).see, Partial: s.Fleet.Partial,
		Heartbeat: c.Nodes.HeartbeatIntervalMS.Duration(), Presence: c.Nodes.PresenceTTLMS.Duration(),
		SlowAfter: c.Observability.PathWarnMS.Duration(), PerAddress: cfg.Server.PerAddress, LoopbackOnly: !cfg.Server.Insecure && keys.Open(),
	})
	s.registerMetrics()
	return s, nil
}

// registerMetrics registers the gauges that are read from the parts of the scheduler.
func (s *Scheduler) registerMetrics() {
	s.Metrics.Registry.MustRegister(telemetry.NewDirections(s.directions))
	s.Metrics.RegisterGauge("lingua_sessions", "Sessions of this instance, also those whose connection was lost a moment ago.",
		func() float64 { return float64(s.Sessions.Len()) })
	s.Metrics.RegisterGauge("lingua_connected_nodes", "Nodes that are connected to this instance by their socket.",
		func() float64 { return float64(s.nodeConns.Len()) })
	s.Metrics.RegisterGauge("lingua_socket_connections", "WebSocket connections of nodes and sessions.",
		func() float64 { return float64(s.hub.Len()) })
	s.Metrics.RegisterGauge("lingua_presence_age_seconds", "Since this instance last said that it is present; it grants nothing after two thirds of heartbeat_ttl_seconds.",
		func() float64 { return s.Bus.PresenceAge().Seconds() })
	s.Metrics.RegisterGauge("lingua_audio_held_bytes", "Audio that is kept until its jobs have ended.",
		func() float64 { return float64(s.Audio.Held()) })
	s.Metrics.RegisterGauge("lingua_waiting_requests", "Requests that wait on this instance for a node with room.",
		func() float64 { return float64(s.Jobs.Waiting()) })
}

// closed counts how a connection ended.
func (s *Scheduler) closed(c socket.CloseError) { s.Metrics.CountClose(int(c.Code), c.ByPeer) }

// firstMessage is within what time a new connection must send its first message.
const firstMessage = 10 * time.Second

// sessionConfig is the configuration of sessions.
func sessionConfig(c *config.Scheduler, instance core.InstanceID) session.Config {
	const bytesPerMS = 2 * 48 * 2 // of the most that PCM can take
	return session.Config{
		Instance: instance,
		Pause:    c.Segmentation.PauseMS.Duration(), MaxUtterance: c.Segmentation.MaxUtteranceMS.Duration(), Silence: c.Segmentation.SilenceLevel,
		Ahead: c.Sessions.AheadMS.Duration(), Resume: c.Sessions.ResumeSeconds.Duration(), Idle: c.Sessions.IdleSeconds.Duration(),
		Wait: c.Sessions.WaitMS.Duration(), JoinWait: c.Sessions.JoinWaitMS.Duration(), Job: c.Dispatch.JobTimeoutMS.Duration(), MaxUnanswered: c.Sessions.OpenUtterances,
		MaxUtteranceBytes: int(c.Segmentation.MaxUtteranceMS) * bytesPerMS, OutboxBytes: int64(c.Sessions.OutboxKB) << 10,
		FirstMessage: firstMessage, Ping: pingEvery,
	}
}

// mostLeave is how long connections are given to go elsewhere when this instance stops.
const mostLeave = 5 * time.Second

// pingEvery is how often a silent connection is asked whether it is there.
const pingEvery = 15 * time.Second

func spreadWindow(b config.TaskBinding) time.Duration {
	if !b.SpreadEnabled {
		return 0
	}
	return b.SpreadWindowSeconds.Duration()
}

// Listen opens the scheduler's port.
func (s *Scheduler) Listen(ctx context.Context) (net.Listener, error) {
	// 0.0.0.0 means IPv4 to whoever writes it; Go would listen on [::] as well.
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

// Run serves until the context ends and then stops in good order: no new work is granted, jobs in flight
// may end, and what has not ended in time stays as the store has it.
func (s *Scheduler) Run(ctx context.Context, l net.Listener) error {
	loops, stopLoops := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLoops()
	if err := s.Bus.Announce(loops); err != nil {
		return errors.Join(fmt.Errorf("cannot announce this instance: %w", err), l.Close(), s.Store.Close())
	}
	s.life = loops
	s.Fleet.SetPartial(s.shares()) // a store that others use may hold nodes: until the follower has read them this instance is not ready
	var background sync.WaitGroup
	background.Go(func() { s.receiver.Run(loops) })
	background.Go(func() { s.follower.Run(loops) })
	background.Go(func() { s.Nodes.EvictSilent(loops) })
	background.Go(func() { s.hub.Run(loops) })
	if s.shares() {
		watch := absences{ttl: s.cfg.Scheduler.Phase2.HeartbeatTTLSeconds.Duration(), now: time.Now}
		background.Go(func() { watch.watch(loops, s.wasAway) })
	}

	srv := s.Server.HTTP()
	served := make(chan error, 1)
	background.Go(func() { served <- srv.Serve(l) })
	s.log.Info("listening", append([]any{"address", l.Addr().String(), "instance", s.Bus.Instance(), "advertise_url", s.nodeConns.Address()}, s.kept...)...)

	var failure error
	select {
	case <-ctx.Done():
	case failure = <-served:
	}
	s.stop(context.WithoutCancel(ctx), srv)
	stopLoops()
	background.Wait()
	s.later.Wait()
	s.caller.Close()
	s.leave(context.WithoutCancel(ctx))
	if failure != nil && !errors.Is(failure, http.ErrServerClosed) {
		return errors.Join(fmt.Errorf("cannot serve: %w", failure), s.Store.Close())
	}
	return s.Store.Close()
}

// stop ends the scheduler's work within the configured time.
func (s *Scheduler) stop(ctx context.Context, srv *http.Server) {
	deadline, cancel := context.WithTimeout(ctx, s.cfg.Server.ShutdownSeconds.Duration())
	defer cancel()
	// Before anybody is told that it leaves. What is said while a session is still connected here is dispatched as usual.
	s.Jobs.Leave()
	s.Server.Unready()
	_ = s.Bus.Announce(deadline) // that it is draining; if it cannot be said now it is with the next renewal
	s.log.Info("stopping: no new jobs are granted", "in_flight", s.Jobs.InFlight(), "sessions", s.Sessions.Len(), "nodes", s.nodeConns.Len())
	const reason = "this instance is stopping"
	leave := min(s.cfg.Server.ShutdownSeconds.Duration()/2, mostLeave)
	var leaving sync.WaitGroup
	leaving.Go(func() { s.Sessions.GoAway(deadline, reason, leave) })
	if s.accompanied(deadline) { // there are others to go to, and what a node has goes with it
		leaving.Go(func() { s.nodeConns.GoAway(deadline, reason, leave) })
	}
	leaving.Wait()
	// Nodes must still be able to report while their jobs end.
	if left := s.Jobs.Drain(deadline); left > 0 {
		s.log.Warn("jobs in flight did not end in time", "left", left)
	}
	s.nodeConns.GoAway(deadline, reason, 0)
	if err := srv.Shutdown(deadline); err != nil {
		_ = srv.Close() // only reports connections that were cut, which is what it is for
	}
	s.Server.Close(deadline)
	s.Sessions.Close()
	s.Jobs.Close()
	s.log.Info("stopped")
}

// directions reads how the directions asked for lately are doing.
func (s *Scheduler) directions() []telemetry.Direction {
	inFlight := s.Jobs.InFlightByDirection()
	byName := make(map[core.Direction]telemetry.Direction)
	for p := range s.Fleet.Pools() {
		if p.Requirement.TTS {
			continue // the same direction without speech covers it
		}
		d := telemetry.Direction{Name: p.Requirement.String()}
		for m := range p.Members().All() {
			if b := m.Summary(); b.Ready() && b.Reachable() {
				d.Capacity += b.MaxJobs()
			}
		}
		byName[p.Requirement.Direction] = d
	}
	for direction, n := range inFlight {
		d := byName[direction]
		d.Name, d.InFlight = direction.String(), n
		byName[direction] = d
	}
	all := make([]telemetry.Direction, 0, len(byName))
	for _, d := range byName {
		all = append(all, d)
	}
	return all
}
