package scheduler

import (
	"time"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/convert"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/health"
	"github.com/lingua-scheduler/lingua/internal/journal"
	"github.com/lingua-scheduler/lingua/internal/nodeconn"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/pick"
	"github.com/lingua-scheduler/lingua/internal/pools"
	"github.com/lingua-scheduler/lingua/internal/server"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/internal/stats"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// The functions in this file derive the settings of each part from the scheduler's, with the parts that were made before it.

const (
	firstMessageTimeout = 10 * time.Second // a new connection sends its first message within this time
	pingInterval        = 15 * time.Second // how often a silent connection is pinged
	maxGoAway           = 5 * time.Second  // connections have at most this long to go to another instance when this one stops
)

func (s *Scheduler) auditOptions() journal.AuditOptions {
	return journal.AuditOptions{Instance: s.instance, Output: s.cfg.Audit.Output, Dropped: s.Metrics.AuditDropped, Log: s.log}
}

func (s *Scheduler) busConfig() bus.Config {
	p := &s.cfg.Scheduler.Phase2
	return bus.Config{
		Instance: s.instance, TTL: p.HeartbeatTTLSeconds.Duration(), Block: p.StreamBlockMS.Duration(), Keep: p.DLQTTLSeconds.Duration(),
		About: s.describe, Events: s.events,
	}
}

func pickPolicy(c *config.Scheduler) pick.Policy {
	return pick.Policy{
		SampleK: c.Dispatch.SampleK, ScanMax: c.Dispatch.ScanMax, StaleAfter: c.Dispatch.HeartbeatStaleMS.Duration(),
		LateAfter: 2 * c.Nodes.HeartbeatIntervalMS.Duration(), Shuffle: c.Dispatch.CandidateShuffle,
		CPUMax: c.ResourceLimits.CPUMax, GPUMax: c.ResourceLimits.GPUMax, MemoryMax: c.ResourceLimits.MemoryMax,
	}
}

// overdueAfter returns when a node is overdue: a second before selections treat it differently, because its heartbeats are read by polls,
// and after a quarter of that time at least.
func overdueAfter(c *config.Scheduler) time.Duration {
	policy := pickPolicy(c)
	differs := min(policy.LateAfter, policy.StaleAfter, c.Nodes.PresenceTTLMS.Duration())
	return max(differs-time.Second, differs/4)
}

func (s *Scheduler) sessionConfig() session.Config {
	const bytesPerMS = 2 * 48 * 2 // the maximum of PCM: 16 bits, 48 kHz, 2 channels
	c := &s.cfg.Scheduler
	return session.Config{
		Instance: s.instance,
		Pause:    c.Segmentation.PauseMS.Duration(), MaxUtterance: c.Segmentation.MaxUtteranceMS.Duration(),
		Silence: c.Segmentation.SilenceLevel,
		Ahead:   c.Sessions.AheadMS.Duration(), Resume: c.Sessions.ResumeSeconds.Duration(), Idle: c.Sessions.IdleSeconds.Duration(),
		Wait: c.Sessions.WaitMS.Duration(), JoinWait: c.Sessions.JoinWaitMS.Duration(), Job: c.Dispatch.JobTimeoutMS.Duration(),
		MaxUnanswered: c.Sessions.OpenUtterances, UtteranceRate: c.Sessions.UtteranceRate,
		MaxUtteranceBytes: int(c.Segmentation.MaxUtteranceMS) * bytesPerMS, OutboxBytes: int64(c.Sessions.OutboxKB) << 10,
		Spread:       c.TaskBinding.SpreadEnabled,
		FirstMessage: firstMessageTimeout, Ping: pingInterval, SlowAfter: c.Observability.PathWarnMS.Duration(),
		Tenants: s.tenants, Revocations: s.revocations, Tracer: s.tracer,
	}
}

func (s *Scheduler) connOptions(http dispatch.Transport, urls audio.URLs) nodeconn.Options {
	return nodeconn.Options{
		HTTP: http, Audio: s.Audio, URLs: urls, Bus: s.Bus, Owner: s.ownerOf,
		ACKTimeout: s.cfg.Scheduler.Dispatch.ACKTimeoutMS.Duration(), Tracer: s.tracer,
	}
}

func (s *Scheduler) catalogOptions() health.CatalogOptions {
	h := &s.cfg.Scheduler.ModelHub
	return health.CatalogOptions{
		URL: h.URL, Token: h.Token, Refresh: h.RefreshSeconds.Duration(), Timeout: h.TimeoutMS.Duration(),
		Metrics: s.Metrics, Log: s.log,
	}
}

func (s *Scheduler) unavailableOptions() health.UnavailableOptions {
	m := &s.cfg.Scheduler.ModelNotAvailable
	return health.UnavailableOptions{
		MarkFor: m.MarkTTLSeconds.Duration(), Debounce: m.DebounceSeconds.Duration(), Limit: m.RateLimit(),
		Window: m.RateWindowSeconds.Duration(),
		Store:  s.Store, Fleet: s.Fleet, Catalog: s.catalog, Events: s.events, Metrics: s.Metrics, Log: s.log,
	}
}

func (s *Scheduler) statsOptions() stats.Options {
	c := &s.cfg.Scheduler
	return stats.Options{
		Instance: s.instance, Interval: c.Stats.IntervalSeconds.Duration(), TTL: c.Stats.TTLSeconds.Duration(),
		Presence: c.Nodes.PresenceTTLMS.Duration(), EjectOutliers: c.OutlierEjection.Enabled,
		Store: s.Store, StoreReachable: s.storeHealth.Reachable,
		Fleet: s.Fleet, Bus: s.Bus, Catalog: s.catalog, Load: s.load,
		Events: s.events, Metrics: s.Metrics, Log: s.log,
	}
}

func (s *Scheduler) dispatchConfig() dispatch.Config {
	c := &s.cfg.Scheduler
	cfg := dispatch.Config{
		Instance: s.instance, DecideWithin: c.Dispatch.DecideWithinMS.Duration(),
		ACKTimeout: c.Dispatch.ACKTimeoutMS.Duration(), DeliverWithin: c.TaskBinding.ReservedTTLSeconds.Duration(),
		AttemptTimeout: c.Dispatch.AttemptTimeoutMS.Duration(), JobTimeout: c.Dispatch.JobTimeoutMS.Duration(),
		MaxRetry: c.Dispatch.MaxRetry, MaxWaiting: c.Dispatch.MaxWaiting, AudioGrace: c.Sessions.ResumeSeconds.Duration(),
		HasAudio: s.Audio.Has, MissedACKs: s.nodeConns.MissedACKs, StoreReachable: s.storeHealth.Reachable,
		Fence: s.fence(), Shared: s.Store.Shared(), Bus: s.Bus,
		Observer: s.Stats.Observer(), Tenants: s.tenants, Tracer: s.tracer, Events: s.events,
	}
	if c.TaskBinding.SpreadEnabled {
		cfg.SpreadWindow = c.TaskBinding.SpreadWindowSeconds.Duration()
	}
	return cfg
}

func (s *Scheduler) nodesConfig() nodes.Config {
	c := &s.cfg.Scheduler.Nodes
	return nodes.Config{
		Instance: s.instance, Heartbeat: c.HeartbeatIntervalMS.Duration(), Presence: c.PresenceTTLMS.Duration(),
		Retention: c.RetentionSeconds.Duration(), RequireSecret: s.cfg.Auth.NodeSecretRequired(),
		Events: s.events, Unavailable: s.unavailable, Revocations: s.revocations,
	}
}

func (s *Scheduler) hubOptions() socket.Options {
	c := &s.cfg.Scheduler.Sessions
	return socket.Options{PerAddress: c.PerAddress, Origins: c.Origins, Ended: s.countClose, Log: s.log}
}

func (s *Scheduler) nodeServerOptions(read *convert.Reader) nodeconn.ServerOptions {
	c := &s.cfg.Scheduler
	return nodeconn.ServerOptions{
		Instance: s.instance, Conns: s.nodeConns, Jobs: s.Jobs, Nodes: s.Nodes, Sessions: s.Sessions, Read: read, Log: s.log,
		HeartbeatInterval: c.Nodes.HeartbeatIntervalMS.Duration(), Presence: c.Nodes.PresenceTTLMS.Duration(),
		FirstMessage: firstMessageTimeout, Grace: c.Sessions.DisconnectGraceMS.Duration(),
	}
}

func (s *Scheduler) serverOptions(read *convert.Reader, urls audio.URLs) server.Options {
	c := &s.cfg.Scheduler
	servers, _ := s.Store.(store.Inspector) // nil: memory has none
	return server.Options{
		Version: s.version, Log: s.log, Metrics: s.Metrics,
		Bus: s.Bus, Peers: s.credentials.peerClient(s.instance), PeerSecrets: s.credentials.peerSecrets,
		Auth: s.credentials.auth, Revocations: s.revocations.Follower,
		Verifier:         &nodes.Verifier{Fleet: s.Fleet, Nodes: s.Store, RequireSecret: s.cfg.Auth.NodeSecretRequired()},
		NodesHaveTenants: func() bool { return s.Fleet.Divided().HasTenants() },
		Reload:           s.credentials.reloader, Audit: s.audit,
		Read: read, Jobs: s.Jobs, Nodes: s.Nodes,
		Hub: s.hub, NodeConns: s.nodeConns, NodeServer: s.nodeServer, Sessions: s.Sessions, Audio: s.Audio, AudioURLs: urls,
		Logs: s.Store, Servers: servers, StoreHealth: &s.storeHealth, Partial: s.Fleet.Partial,
		Stats: s.Stats.Reader, NodeSeries: s.Stats.Series, NodeTable: s.Stats.Table, Remembered: s.Stats.Jobs,
		Pools: pools.NewReader(s.pools, s.picker, s.Store), Tenants: s.tenants,
		Catalog: s.catalog, QueuedReports: s.unavailable.Queued,
		Heartbeat: c.Nodes.HeartbeatIntervalMS.Duration(), Presence: c.Nodes.PresenceTTLMS.Duration(),
		FirstMessage: firstMessageTimeout,
		TokenGrace:   s.cfg.Auth.SessionGraceSeconds.Duration(), LoginTTL: s.cfg.Auth.LoginSeconds.Duration(),
		SlowAfter: c.Observability.PathWarnMS.Duration(), PerAddress: s.cfg.Server.PerAddress,
		LoopbackOnly: !s.cfg.Server.Insecure && s.credentials.auth.Keyring().Empty(), BasePath: s.cfg.Server.BasePath,
	}
}
