package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// Validate reports everything that is wrong with a configuration, each with what to do about it. Times are
// held against each other: a timeout that another always beats to it would be a setting without effect.
func (c *Config) Validate() error {
	var problems []error
	need := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	s, d, n, b := &c.Server, &c.Scheduler.Dispatch, &c.Scheduler.Nodes, &c.Scheduler.TaskBinding

	need(c.Store == "memory", "store: %q is not known; use memory", c.Store)
	need(s.Port >= 0 && s.Port <= 65535, "server.port: must be between 0 and 65535, not %d", s.Port)
	need(s.ShutdownSeconds >= 0 && s.ShutdownSeconds <= 3600, "server.shutdown_seconds: must be between 0 and 3600, not %d", s.ShutdownSeconds)
	need(s.Insecure || Loopback(s.Host),
		"server.host: without keys the scheduler listens on loopback only, and %q is not; use 127.0.0.1, or --insecure if nobody else can reach that address", s.Host)
	if _, err := telemetry.Logger(nil, c.Log.Level, c.Log.Format); err != nil {
		problems = append(problems, err)
	}
	for _, k := range []struct {
		name string
		d    int64
		unit time.Duration
	}{
		{"scheduler.nodes.presence_ttl_ms", int64(n.PresenceTTLMS), time.Millisecond},
		{"scheduler.nodes.retention_seconds", int64(n.RetentionSeconds), time.Second},
		{"scheduler.task_binding.lease_seconds", int64(b.LeaseSeconds), time.Second},
		{"scheduler.task_binding.reserved_ttl_seconds", int64(b.ReservedTTLSeconds), time.Second},
		{"scheduler.task_binding.spread_window_seconds", int64(b.SpreadWindowSeconds), time.Second},
		{"scheduler.model_not_available.mark_ttl_seconds", int64(c.Scheduler.ModelNotAvailable.MarkTTLSeconds), time.Second},
		{"scheduler.observability.path_warn_ms", int64(c.Scheduler.Observability.PathWarnMS), time.Millisecond},
	} {
		need(k.d <= int64(366*24*time.Hour/k.unit), "%s: must be a year or less, not %d", k.name, k.d)
	}
	if _, err := c.Callback.Prefixes(); err != nil {
		problems = append(problems, err)
	}

	need(n.HeartbeatIntervalMS >= 10, "scheduler.nodes.heartbeat_interval_ms: must be 10 or more, not %d", n.HeartbeatIntervalMS)
	need(n.PresenceTTLMS >= 3*n.HeartbeatIntervalMS,
		"scheduler.nodes.presence_ttl_ms: must be at least three heartbeats (%d), not %d: one lost heartbeat would lose a node", 3*n.HeartbeatIntervalMS, n.PresenceTTLMS)
	need(n.RetentionSeconds.Duration() >= n.PresenceTTLMS.Duration(),
		"scheduler.nodes.retention_seconds: must not be less than presence_ttl_ms")
	need(b.LeaseSeconds >= 1, "scheduler.task_binding.lease_seconds: must be 1 or more, not %d", b.LeaseSeconds)
	need(b.ReservedTTLSeconds.Duration() > d.ACKTimeoutMS.Duration(),
		"scheduler.task_binding.reserved_ttl_seconds: must be more than dispatch.ack_timeout_ms, or a reservation is judged before its ACK is due")
	need(!b.SpreadEnabled || b.SpreadWindowSeconds >= 1, "scheduler.task_binding.spread_window_seconds: must be 1 or more when spread_enabled, not %d", b.SpreadWindowSeconds)

	need(d.SampleK >= 1 && d.SampleK <= 256, "scheduler.dispatch.sample_k: must be between 1 and 256, not %d", d.SampleK)
	need(d.ScanMax >= d.SampleK && d.ScanMax <= 100_000, "scheduler.dispatch.scan_max: must be between sample_k and 100000, not %d", d.ScanMax)
	need(d.ACKTimeoutMS >= 1, "scheduler.dispatch.ack_timeout_ms: must be 1 or more, not %d", d.ACKTimeoutMS)
	need(d.AttemptTimeoutMS > d.ACKTimeoutMS, "scheduler.dispatch.attempt_timeout_ms: must be more than ack_timeout_ms (%d), not %d", d.ACKTimeoutMS, d.AttemptTimeoutMS)
	need(d.JobTimeoutMS > d.AttemptTimeoutMS, "scheduler.dispatch.job_timeout_ms: must be more than attempt_timeout_ms (%d), not %d", d.AttemptTimeoutMS, d.JobTimeoutMS)
	need(d.JobTimeoutMS <= 3_600_000, "scheduler.dispatch.job_timeout_ms: must be an hour or less, not %d", d.JobTimeoutMS)
	need(d.MaxRetry >= 0 && d.MaxRetry <= 10, "scheduler.dispatch.max_retry: must be between 0 and 10, not %d", d.MaxRetry)
	need(d.HeartbeatStaleMS >= n.HeartbeatIntervalMS && d.HeartbeatStaleMS <= n.PresenceTTLMS,
		"scheduler.dispatch.heartbeat_stale_ms: must be between one heartbeat (%d) and presence_ttl_ms (%d), not %d", n.HeartbeatIntervalMS, n.PresenceTTLMS, d.HeartbeatStaleMS)

	for _, l := range []struct {
		name string
		v    float64
	}{{"cpu_max", c.Scheduler.ResourceLimits.CPUMax}, {"gpu_max", c.Scheduler.ResourceLimits.GPUMax}, {"memory_max", c.Scheduler.ResourceLimits.MemoryMax}} {
		need(l.v > 0 && l.v <= 1, "scheduler.resource_limits.%s: must be more than 0 and at most 1, not %v", l.name, l.v)
	}
	need(c.Scheduler.ModelNotAvailable.MarkTTLSeconds >= 1, "scheduler.model_not_available.mark_ttl_seconds: must be 1 or more")
	need(c.Scheduler.ModelNotAvailable.NodeRatePerMinute >= 1, "scheduler.model_not_available.node_rate_per_minute: must be 1 or more")
	need(c.Scheduler.Observability.PathWarnMS >= 1, "scheduler.observability.path_warn_ms: must be 1 or more")
	return errors.Join(problems...)
}

// Loopback reports whether a host can only be reached from this machine.
func Loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// Prefixes are the networks in which callback addresses may be.
func (c *Callback) Prefixes() ([]netip.Prefix, error) {
	prefixes := make([]netip.Prefix, 0, len(c.AllowedTargets))
	for _, s := range c.AllowedTargets {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, fmt.Errorf("callback.allowed_targets: %q is not a CIDR prefix such as 10.0.0.0/8 or ::1/128", s)
		}
		prefixes = append(prefixes, p.Masked())
	}
	return prefixes, nil
}
