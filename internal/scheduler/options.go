package scheduler

import (
	"time"

	"github.com/lingua-scheduler/lingua/internal/health"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/pick"
	"github.com/lingua-scheduler/lingua/internal/server"
	"github.com/lingua-scheduler/lingua/internal/session"
)

// The functions in this file derive the configuration of each part from the scheduler's.

const (
	firstMessageTimeout = 10 * time.Second // a new connection sends its first message within this time
	pingInterval        = 15 * time.Second // how often a silent connection is pinged
	maxGoAway           = 5 * time.Second  // connections have at most this long to go to another instance when this one stops
)

func busConfig(c *config.Scheduler, instance core.InstanceID) bus.Config {
	p := &c.Phase2
	return bus.Config{
		Instance: instance, TTL: p.HeartbeatTTLSeconds.Duration(), Block: p.StreamBlockMS.Duration(), Keep: p.DLQTTLSeconds.Duration(),
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

func dispatchConfig(c *config.Scheduler, instance core.InstanceID) dispatch.Config {
	cfg := dispatch.Config{
		Instance: instance, DecideWithin: c.Dispatch.DecideWithinMS.Duration(),
		ACKTimeout: c.Dispatch.ACKTimeoutMS.Duration(), DeliverWithin: c.TaskBinding.ReservedTTLSeconds.Duration(),
		AttemptTimeout: c.Dispatch.AttemptTimeoutMS.Duration(), JobTimeout: c.Dispatch.JobTimeoutMS.Duration(),
		MaxRetry: c.Dispatch.MaxRetry, MaxWaiting: c.Dispatch.MaxWaiting, AudioGrace: c.Sessions.ResumeSeconds.Duration(),
	}
	if c.TaskBinding.SpreadEnabled {
		cfg.SpreadWindow = c.TaskBinding.SpreadWindowSeconds.Duration()
	}
	return cfg
}

func nodesConfig(c *config.Scheduler, instance core.InstanceID) nodes.Config {
	return nodes.Config{
		Instance: instance, Heartbeat: c.Nodes.HeartbeatIntervalMS.Duration(), Presence: c.Nodes.PresenceTTLMS.Duration(),
		Retention: c.Nodes.RetentionSeconds.Duration(),
	}
}

func catalogOptions(c *config.Scheduler) health.CatalogOptions {
	h := &c.ModelHub
	return health.CatalogOptions{URL: h.URL, Token: h.Token, Refresh: h.RefreshSeconds.Duration(), Timeout: h.TimeoutMS.Duration()}
}

func unavailableOptions(c *config.Scheduler) health.UnavailableOptions {
	m := &c.ModelNotAvailable
	return health.UnavailableOptions{
		MarkFor: m.MarkTTLSeconds.Duration(), Debounce: m.DebounceSeconds.Duration(), Limit: m.RateLimit(),
		Window: m.RateWindowSeconds.Duration(),
	}
}

func serverLimits(cfg *config.Config, noKeys bool) server.Limits {
	return server.Limits{
		FirstMessage: firstMessageTimeout, SlowAfter: cfg.Scheduler.Observability.PathWarnMS.Duration(), PerAddress: cfg.Server.PerAddress,
		LoopbackOnly: !cfg.Server.Insecure && noKeys, BasePath: cfg.Server.BasePath,
	}
}

func sessionConfig(c *config.Scheduler, instance core.InstanceID) session.Config {
	const bytesPerMS = 2 * 48 * 2 // the maximum of PCM: 16 bits, 48 kHz, 2 channels
	return session.Config{
		Instance: instance,
		Pause:    c.Segmentation.PauseMS.Duration(), MaxUtterance: c.Segmentation.MaxUtteranceMS.Duration(),
		Silence: c.Segmentation.SilenceLevel,
		Ahead:   c.Sessions.AheadMS.Duration(), Resume: c.Sessions.ResumeSeconds.Duration(), Idle: c.Sessions.IdleSeconds.Duration(),
		Wait: c.Sessions.WaitMS.Duration(), JoinWait: c.Sessions.JoinWaitMS.Duration(), Job: c.Dispatch.JobTimeoutMS.Duration(),
		MaxUnanswered: c.Sessions.OpenUtterances, UtteranceRate: c.Sessions.UtteranceRate,
		MaxUtteranceBytes: int(c.Segmentation.MaxUtteranceMS) * bytesPerMS, OutboxBytes: int64(c.Sessions.OutboxKB) << 10,
		Spread:       c.TaskBinding.SpreadEnabled,
		FirstMessage: firstMessageTimeout, Ping: pingInterval, SlowAfter: c.Observability.PathWarnMS.Duration(),
	}
}
