package config

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// prefixPattern is what may begin a key: nothing that has a meaning in one. An instance's name is part of keys too.
var (
	prefixPattern = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
	namePattern   = prefixPattern
)

// judge reports everything that is wrong with a configuration, each with what to do about it. Times are
// held against each other: a timeout that another always beats to it would be a setting without effect.
func (c *Config) judge() []*problem {
	var problems []*problem
	need := func(ok bool, key, format string, args ...any) *problem {
		p := &problem{key: key, text: fmt.Sprintf(format, args...)}
		if !ok {
			problems = append(problems, p)
		}
		return p
	}
	const (
		heartbeat = "scheduler.nodes.heartbeat_interval_ms"
		presence  = "scheduler.nodes.presence_ttl_ms"
		retention = "scheduler.nodes.retention_seconds"
		lease     = "scheduler.task_binding.lease_seconds"
		reserved  = "scheduler.task_binding.reserved_ttl_seconds"
		window    = "scheduler.task_binding.spread_window_seconds"
		sample    = "scheduler.dispatch.sample_k"
		decide    = "scheduler.dispatch.decide_within_ms"
		ack       = "scheduler.dispatch.ack_timeout_ms"
		attempt   = "scheduler.dispatch.attempt_timeout_ms"
		job       = "scheduler.dispatch.job_timeout_ms"
		mark      = "scheduler.model_not_available.mark_ttl_seconds"
		slow      = "scheduler.observability.path_warn_ms"
	)
	s, d, n, b := &c.Server, &c.Scheduler.Dispatch, &c.Scheduler.Nodes, &c.Scheduler.TaskBinding
	m, o := &c.Scheduler.ModelNotAvailable, &c.Scheduler.Observability

	_, shared, p := c.redisAddress()
	if p != nil {
		problems = append(problems, p)
	}
	const phase2 = "scheduler.phase2"
	p2 := &c.Scheduler.Phase2
	need(namePattern.MatchString(p2.InstanceID), phase2+".instance_id", "must be auto, or 1 to 64 letters, digits and any of . _ -, not %q", p2.InstanceID)
	need(p2.HeartbeatTTLSeconds >= 1 && p2.HeartbeatTTLSeconds <= 60, phase2+".heartbeat_ttl_seconds", "must be between 1 and 60, not %d", p2.HeartbeatTTLSeconds)
	need(p2.StreamBlockMS >= 10 && p2.StreamBlockMS <= 10_000, phase2+".stream_block_ms", "must be between 10 and 10000, not %d", p2.StreamBlockMS)
	need(p2.DLQTTLSeconds >= 1 && p2.DLQTTLSeconds <= 366*24*3600, phase2+".dlq_ttl_seconds", "must be between 1 and a year, not %d", p2.DLQTTLSeconds)
	need(prefixPattern.MatchString(c.Scheduler.Phase2.Redis.KeyPrefix), phase2Key+".key_prefix",
		"must be 1 to 64 letters, digits and any of . _ -, not %q", c.Scheduler.Phase2.Redis.KeyPrefix)
	need(s.AdvertiseURL == "" || bareAddress(s.AdvertiseURL), "server.advertise_url",
		"must be an address such as http://10.0.0.1:5010, with no user before the host and nothing after the port")
	need(s.Port >= 0 && s.Port <= 65535, "server.port", "a port must be between 0 and 65535, not %d", s.Port)
	need(s.PerAddress >= 0, "server.per_address", "must be 0 or more, not %d", s.PerAddress)
	need(s.ShutdownSeconds >= 0 && s.ShutdownSeconds <= 3600, "server.shutdown_seconds", "must be between 0 and 3600, not %d", s.ShutdownSeconds)
	keys, err := c.Auth.Keys()
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			key, text, _ := strings.Cut(strings.TrimSpace(line), ": ")
			need(false, key, "%s", text)
		}
	}
	need(!shared || len(c.Auth.OperatorKeys) == 0 || c.Auth.SessionSecret != "", "auth.session_secret",
		"is missing: schedulers that share a fleet need the same one, or a token that one has made is refused by the others")
	need(s.Insecure || IsLoopback(s.Host) || keys != nil && !keys.Empty(), "server.host", "%s", s.exposed()).against("server.insecure")
	// One at a time: the logger says only the first that is wrong.
	for _, l := range []struct{ key, level, format string }{{"log.level", c.Log.Level, "text"}, {"log.format", "info", c.Log.Format}} {
		if _, err := telemetry.Logger(nil, l.level, l.format); err != nil {
			need(false, l.key, "%s", strings.TrimPrefix(err.Error(), l.key+": "))
		}
	}
	for _, target := range c.Callback.AllowedTargets {
		_, err := netip.ParsePrefix(target)
		need(err == nil, allowedTargets, notAPrefix, target)
	}
	for _, k := range []struct {
		name string
		d    int64
		unit time.Duration
	}{
		{presence, int64(n.PresenceTTLMS), time.Millisecond},
		{retention, int64(n.RetentionSeconds), time.Second},
		{lease, int64(b.LeaseSeconds), time.Second},
		{reserved, int64(b.ReservedTTLSeconds), time.Second},
		{window, int64(b.SpreadWindowSeconds), time.Second},
		{mark, int64(m.MarkTTLSeconds), time.Second},
		{slow, int64(o.PathWarnMS), time.Millisecond},
	} {
		need(k.d <= int64(366*24*time.Hour/k.unit), k.name, "must be a year or less, not %d", k.d)
	}

	need(n.HeartbeatIntervalMS >= 10, heartbeat, "must be 10 or more, not %d", n.HeartbeatIntervalMS)
	need(n.PresenceTTLMS >= 3*n.HeartbeatIntervalMS, presence,
		"must be at least three heartbeats (%d), not %d: one lost heartbeat would lose a node", 3*n.HeartbeatIntervalMS, n.PresenceTTLMS).against(heartbeat)
	need(n.RetentionSeconds.Duration() >= n.PresenceTTLMS.Duration(), retention,
		"must not be less than presence_ttl_ms (%d ms), as %d s is", n.PresenceTTLMS, n.RetentionSeconds).against(presence)
	need(b.LeaseSeconds >= 1, lease, "must be 1 or more, not %d", b.LeaseSeconds)
	need(b.ReservedTTLSeconds.Duration() > d.ACKTimeoutMS.Duration(), reserved,
		"must be more than dispatch.ack_timeout_ms (%d ms), not %d s, or a reservation is judged before its ACK is due", d.ACKTimeoutMS, b.ReservedTTLSeconds).against(ack)
	need(!b.SpreadEnabled || b.SpreadWindowSeconds >= 1, window,
		"must be 1 or more when spread_enabled, not %d", b.SpreadWindowSeconds).against("scheduler.task_binding.spread_enabled")

	need(d.SampleK >= 1 && d.SampleK <= 256, sample, "must be between 1 and 256, not %d", d.SampleK)
	need(d.ScanMax >= d.SampleK && d.ScanMax <= 100_000, "scheduler.dispatch.scan_max",
		"must be between sample_k (%d) and 100000, not %d", d.SampleK, d.ScanMax).against(sample)
	g, t := &c.Scheduler.Segmentation, &c.Scheduler.Sessions
	const segmentation, sessions = "scheduler.web_task_segmentation", "scheduler.sessions"
	need(g.PauseMS >= 100 && g.PauseMS <= 10_000, segmentation+".pause_ms", "must be between 100 and 10000, not %d", g.PauseMS)
	need(g.MaxUtteranceMS >= 1000 && g.MaxUtteranceMS <= 60_000, segmentation+".max_utterance_ms", "must be between 1000 and 60000, not %d", g.MaxUtteranceMS)
	need(g.SilenceLevel >= 0 && g.SilenceLevel <= 1, segmentation+".silence_level", "must be between 0 and 1, not %v", g.SilenceLevel)
	need(t.ResumeSeconds >= 1 && t.ResumeSeconds <= 3600, sessions+".resume_seconds", "must be between 1 and 3600, not %d", t.ResumeSeconds)
	need(t.IdleSeconds >= 1 && t.IdleSeconds <= 86_400, sessions+".idle_seconds", "must be between 1 and 86400, not %d", t.IdleSeconds)
	need(t.WaitMS >= 0 && t.WaitMS <= 600_000, sessions+".wait_ms", "must be between 0 and 600000, not %d", t.WaitMS)
	need(t.JoinWaitMS >= 0 && t.JoinWaitMS <= 600_000, sessions+".join_wait_ms", "must be between 0 and 600000, not %d", t.JoinWaitMS)
	need(t.AheadMS >= 100 && t.AheadMS <= 600_000, sessions+".ahead_ms", "must be between 100 and 600000, not %d", t.AheadMS)
	need(t.OpenUtterances >= 1 && t.OpenUtterances <= 1000, sessions+".open_utterances", "must be between 1 and 1000, not %d", t.OpenUtterances)
	need(t.OutboxKB >= 256 && t.OutboxKB <= 1<<20, sessions+".outbox_kb", "must be between 256, the size of one frame, and 1048576, not %d", t.OutboxKB)
	need(t.AudioBufferMB >= 1 && t.AudioBufferMB <= 1<<20, sessions+".audio_buffer_mb", "must be between 1 and 1048576, not %d", t.AudioBufferMB)
	need(t.PerAddress >= 0, sessions+".per_address", "must be 0 or more, not %d", t.PerAddress)
	need(t.DisconnectGraceMS >= 0 && t.DisconnectGraceMS <= 60_000, sessions+".disconnect_grace_ms", "must be between 0 and 60000, not %d", t.DisconnectGraceMS)
	need(d.DecideWithinMS >= 10 && d.DecideWithinMS <= 10_000, decide, "must be between 10 and 10000, not %d", d.DecideWithinMS)
	need(d.ACKTimeoutMS >= 1, ack, "must be 1 or more, not %d", d.ACKTimeoutMS)
	need(d.AttemptTimeoutMS > d.ACKTimeoutMS, attempt, "must be more than ack_timeout_ms (%d), not %d", d.ACKTimeoutMS, d.AttemptTimeoutMS).against(ack)
	need(d.JobTimeoutMS > d.AttemptTimeoutMS, job, "must be more than attempt_timeout_ms (%d), not %d", d.AttemptTimeoutMS, d.JobTimeoutMS).against(attempt)
	need(d.JobTimeoutMS <= 3_600_000, job, "must be an hour or less, not %d", d.JobTimeoutMS)
	need(d.MaxRetry >= 0 && d.MaxRetry <= 10, "scheduler.dispatch.max_retry", "must be between 0 and 10, not %d", d.MaxRetry)
	need(d.HeartbeatStaleMS >= n.HeartbeatIntervalMS && d.HeartbeatStaleMS <= n.PresenceTTLMS, "scheduler.dispatch.heartbeat_stale_ms",
		"must be between one heartbeat (%d) and presence_ttl_ms (%d), not %d", n.HeartbeatIntervalMS, n.PresenceTTLMS, d.HeartbeatStaleMS).against(heartbeat, presence)

	for _, l := range []struct {
		name string
		v    float64
	}{{"cpu_max", c.Scheduler.ResourceLimits.CPUMax}, {"gpu_max", c.Scheduler.ResourceLimits.GPUMax}, {"memory_max", c.Scheduler.ResourceLimits.MemoryMax}} {
		need(l.v > 0 && l.v <= 1, "scheduler.resource_limits."+l.name, "must be more than 0 and at most 1, not %v", l.v)
	}
	need(m.MarkTTLSeconds >= 1, mark, "must be 1 or more, not %d", m.MarkTTLSeconds)
	need(m.NodeRatePerMinute >= 1, "scheduler.model_not_available.node_rate_per_minute", "must be 1 or more, not %d", m.NodeRatePerMinute)
	need(o.PathWarnMS >= 1, slow, "must be 1 or more, not %d", o.PathWarnMS)
	return problems
}
