package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/journal"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// problem is one error in a configuration.
type problem struct {
	key     string   // as in the file, such as server.port, or its name in the source that set it
	related []string // the keys that it was compared with
	text    string   // what is wrong and how to correct it
}

func (p *problem) String() string { return p.key + ": " + p.text }

// comparedWith records the keys that the key was compared with.
func (p *problem) comparedWith(keys ...string) { p.related = keys }

// validator collects the problems of a configuration.
type validator struct{ problems []*problem }

// require adds a problem unless ok. The problem is returned in either case, so that callers can add to it.
func (v *validator) require(ok bool, key, format string, args ...any) *problem {
	p := &problem{key: key, text: fmt.Sprintf(format, args...)}
	if !ok {
		v.problems = append(v.problems, p)
	}
	return p
}

// requireRange adds a problem unless low <= value <= high.
func (v *validator) requireRange(key string, value, low, high int64) {
	v.require(value >= low && value <= high, key, "must be between %d and %d, not %d", low, high, value)
}

// requireMin adds a problem unless value >= low.
func (v *validator) requireMin(key string, value, low int64) {
	v.require(value >= low, key, "must be %d or more, not %d", low, value)
}

// requireYear adds a problem if a duration is longer than a year. Durations that overflow would be in the past.
func (v *validator) requireYear(key string, value int64, unit time.Duration) {
	v.require(value <= int64(366*24*time.Hour/unit), key, "must be a year or less, not %d", value)
}

// validate returns every problem of a configuration, each with how to correct it. Times are compared with each other:
// a timeout that another always precedes would have no effect.
func (c *Config) validate() []*problem {
	v := new(validator)
	c.validateStore(v)
	c.validateServer(v)
	c.validateLogAndCallback(v)
	c.validateNodes(v)
	c.validateDispatch(v)
	c.validateSessions(v)
	c.validateLimits(v)
	c.validateGuards(v)
	c.validateTracing(v)
	c.validatePools(v)
	c.validateTenants(v)
	c.Dashboard.validate(v)
	return v.problems
}

// Keys that more than one check names.
const (
	heartbeatKey      = "scheduler.nodes.heartbeat_interval_ms"
	presenceKey       = "scheduler.nodes.presence_ttl_ms"
	ackKey            = "scheduler.dispatch.ack_timeout_ms"
	phase2Key         = "scheduler.phase2"
	allowedTargetsKey = "callback.allowed_targets"
)

// namePattern is the pattern of key prefixes and instance ids: no character that has a meaning in a Redis key.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// validateStore checks where state is stored.
func (c *Config) validateStore(v *validator) {
	_, _, p := c.redisAddress()
	if p != nil {
		v.problems = append(v.problems, p)
	}
	p2 := &c.Scheduler.Phase2
	const name = "1 to 64 letters, digits and any of . _ -, not %q"
	v.require(namePattern.MatchString(p2.InstanceID), phase2Key+".instance_id", "must be auto, or "+name, p2.InstanceID)
	v.requireRange(phase2Key+".heartbeat_ttl_seconds", int64(p2.HeartbeatTTLSeconds), 1, int64(maxHeartbeatTTL)) // Validate has lowered it
	v.requireRange(phase2Key+".stream_block_ms", int64(p2.StreamBlockMS), 10, 10_000)
	v.require(p2.DLQTTLSeconds >= 1 && p2.DLQTTLSeconds <= 366*24*3600, phase2Key+".dlq_ttl_seconds",
		"must be between 1 and a year, not %d", p2.DLQTTLSeconds)
	v.require(namePattern.MatchString(p2.Redis.KeyPrefix), redisKey+".key_prefix", "must be "+name, p2.Redis.KeyPrefix)
}

// validateServer checks the listener and the credentials that it needs.
func (c *Config) validateServer(v *validator) {
	s := &c.Server
	v.require(s.AdvertiseURL == "" || isBareURL(s.AdvertiseURL), "server.advertise_url",
		"must be an address such as http://10.0.0.1:5010, with no user before the host and nothing after the port")
	v.require(s.Port >= 0 && s.Port <= 65535, "server.port", "a port must be between 0 and 65535, not %d", s.Port)
	s.validateBasePath(v)
	c.validateTLS(v)
	v.requireMin("server.per_address", int64(s.PerAddress), 0)
	v.requireRange("server.shutdown_seconds", int64(s.ShutdownSeconds), 0, 3600)
	v.requireRange("server.drain_delay_ms", int64(s.DrainDelayMS), 0, 60_000)
	keys, err := c.Auth.Keyring()
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			key, text, _ := strings.Cut(strings.TrimSpace(line), ": ")
			v.require(false, key, "%s", text)
		}
	}
	v.requireRange("auth.session_grace_seconds", int64(c.Auth.SessionGraceSeconds), 0, 3600)
	v.requireRange("auth.login_seconds", int64(c.Auth.LoginSeconds), 60, int64(auth.MaxLoginTTL.Seconds()))
	v.require(s.Insecure || IsLoopback(s.Host) || keys != nil && !keys.Empty(), "server.host", "%s",
		s.exposureText()).comparedWith("server.insecure")
}

func (c *Config) validateLogAndCallback(v *validator) {
	// Level and format are checked separately: the logger reports only its first error.
	for _, l := range []struct{ key, level, format string }{{"log.level", c.Log.Level, "text"}, {"log.format", "info", c.Log.Format}} {
		if _, err := telemetry.Logger(nil, l.level, l.format); err != nil {
			v.require(false, l.key, "%s", strings.TrimPrefix(err.Error(), l.key+": "))
		}
	}
	v.require(c.Audit.Output == "" || c.Audit.Output == journal.Stderr || filepath.IsAbs(c.Audit.Output), "audit.output",
		"must be stderr, or an absolute path such as /var/log/lingua/audit.log, not %q", c.Audit.Output)
	for _, target := range c.Callback.AllowedTargets {
		_, err := netip.ParsePrefix(target)
		v.require(err == nil, allowedTargetsKey, notAPrefix, target)
	}
	v.require(c.Callback.Secret == "" || len(c.Callback.Secret) >= minCallbackSecret, "callback.secret", "is shorter than %d characters",
		minCallbackSecret)
}

// validateNodes checks the times of nodes and of leases.
func (c *Config) validateNodes(v *validator) {
	const (
		retentionKey = "scheduler.nodes.retention_seconds"
		leaseKey     = "scheduler.task_binding.lease_seconds"
		reservedKey  = "scheduler.task_binding.reserved_ttl_seconds"
		windowKey    = "scheduler.task_binding.spread_window_seconds"
	)
	n, b, d := &c.Scheduler.Nodes, &c.Scheduler.TaskBinding, &c.Scheduler.Dispatch
	v.requireYear(presenceKey, int64(n.PresenceTTLMS), time.Millisecond)
	v.requireYear(retentionKey, int64(n.RetentionSeconds), time.Second)
	v.requireYear(leaseKey, int64(b.LeaseSeconds), time.Second)
	v.requireYear(reservedKey, int64(b.ReservedTTLSeconds), time.Second)
	v.requireYear(windowKey, int64(b.SpreadWindowSeconds), time.Second)
	v.requireMin(heartbeatKey, int64(n.HeartbeatIntervalMS), 10)
	v.require(n.PresenceTTLMS >= 3*n.HeartbeatIntervalMS, presenceKey,
		"must be at least three heartbeats (%d), not %d: one lost heartbeat would lose a node", 3*n.HeartbeatIntervalMS,
		n.PresenceTTLMS).comparedWith(heartbeatKey)
	v.require(n.RetentionSeconds.Duration() >= n.PresenceTTLMS.Duration(), retentionKey,
		"must be at least presence_ttl_ms (%d ms), not %d s", n.PresenceTTLMS, n.RetentionSeconds).comparedWith(presenceKey)
	v.requireMin(leaseKey, int64(b.LeaseSeconds), 1)
	v.require(b.ReservedTTLSeconds.Duration() > d.ACKTimeoutMS.Duration(), reservedKey,
		"must be more than dispatch.ack_timeout_ms (%d ms), not %d s, or a reservation is reconciled before its ACK is due", d.ACKTimeoutMS,
		b.ReservedTTLSeconds).comparedWith(ackKey)
	v.require(!b.SpreadEnabled || b.SpreadWindowSeconds >= 1, windowKey,
		"must be 1 or more with spread_enabled, not %d", b.SpreadWindowSeconds).comparedWith("scheduler.task_binding.spread_enabled")
}

// validateDispatch checks the selection of nodes and the timeouts of jobs.
func (c *Config) validateDispatch(v *validator) {
	const (
		sampleKey  = "scheduler.dispatch.sample_k"
		attemptKey = "scheduler.dispatch.attempt_timeout_ms"
		jobKey     = "scheduler.dispatch.job_timeout_ms"
	)
	d, n := &c.Scheduler.Dispatch, &c.Scheduler.Nodes
	v.requireRange(sampleKey, int64(d.SampleK), 1, 256)
	v.require(d.ScanMax >= d.SampleK && d.ScanMax <= 100_000, "scheduler.dispatch.scan_max",
		"must be between sample_k (%d) and 100000, not %d", d.SampleK, d.ScanMax).comparedWith(sampleKey)
	v.requireRange("scheduler.dispatch.decide_within_ms", int64(d.DecideWithinMS), 10, 10_000)
	v.requireMin(ackKey, int64(d.ACKTimeoutMS), 1)
	v.require(d.AttemptTimeoutMS > d.ACKTimeoutMS, attemptKey, "must be more than ack_timeout_ms (%d), not %d", d.ACKTimeoutMS,
		d.AttemptTimeoutMS).comparedWith(ackKey)
	v.require(d.JobTimeoutMS > d.AttemptTimeoutMS, jobKey, "must be more than attempt_timeout_ms (%d), not %d", d.AttemptTimeoutMS,
		d.JobTimeoutMS).comparedWith(attemptKey)
	v.require(d.JobTimeoutMS <= 3_600_000, jobKey, "must be an hour or less, not %d", d.JobTimeoutMS)
	v.requireRange("scheduler.dispatch.max_retry", int64(d.MaxRetry), 0, 10)
	v.requireRange("scheduler.dispatch.max_waiting", int64(d.MaxWaiting), 1, 1_000_000)
	v.require(d.HeartbeatStaleMS >= n.HeartbeatIntervalMS && d.HeartbeatStaleMS <= n.PresenceTTLMS, "scheduler.dispatch.heartbeat_stale_ms",
		"must be between one heartbeat (%d) and presence_ttl_ms (%d), not %d", n.HeartbeatIntervalMS, n.PresenceTTLMS,
		d.HeartbeatStaleMS).comparedWith(heartbeatKey, presenceKey)
}

func (c *Config) validateSessions(v *validator) {
	g, s := &c.Scheduler.Segmentation, &c.Scheduler.Sessions
	const segmentation, sessions = "scheduler.web_task_segmentation", "scheduler.sessions"
	v.requireRange(segmentation+".pause_ms", int64(g.PauseMS), 100, 10_000)
	v.requireRange(segmentation+".max_utterance_ms", int64(g.MaxUtteranceMS), 1000, 60_000)
	v.require(g.SilenceLevel >= 0 && g.SilenceLevel <= 1, segmentation+".silence_level", "must be between 0 and 1, not %v", g.SilenceLevel)
	v.requireRange(sessions+".resume_seconds", int64(s.ResumeSeconds), 1, 3600)
	v.requireRange(sessions+".idle_seconds", int64(s.IdleSeconds), 1, 86_400)
	v.requireRange(sessions+".wait_ms", int64(s.WaitMS), 0, 600_000)
	v.requireRange(sessions+".join_wait_ms", int64(s.JoinWaitMS), 0, 600_000)
	v.requireRange(sessions+".ahead_ms", int64(s.AheadMS), 100, 600_000)
	v.requireRange(sessions+".open_utterances", int64(s.OpenUtterances), 1, 1000)
	v.requireRange(sessions+".utterances_per_second", int64(s.UtteranceRate), 1, 1_000_000)
	v.require(s.OutboxKB >= 256 && s.OutboxKB <= 1<<20, sessions+".outbox_kb",
		"must be between 256, the size of one frame, and 1048576, not %d", s.OutboxKB)
	v.requireRange(sessions+".audio_buffer_mb", int64(s.AudioBufferMB), 1, 1<<20)
	v.requireMin(sessions+".per_address", int64(s.PerAddress), 0)
	v.requireRange(sessions+".disconnect_grace_ms", int64(s.DisconnectGraceMS), 0, 60_000)
}

// validateLimits checks the limits of resources and of slow requests.
func (c *Config) validateLimits(v *validator) {
	r, o := &c.Scheduler.ResourceLimits, &c.Scheduler.Observability
	for _, l := range []struct {
		name  string
		value float64
	}{{"cpu_max", r.CPUMax}, {"gpu_max", r.GPUMax}, {"memory_max", r.MemoryMax}} {
		v.require(l.value > 0 && l.value <= 1, "scheduler.resource_limits."+l.name, "must be more than 0 and at most 1, not %v", l.value)
	}
	v.requireRange("scheduler.stats.interval_seconds", int64(c.Scheduler.Stats.IntervalSeconds), 5, 10)
	v.requireRange("scheduler.stats.ttl_seconds", int64(c.Scheduler.Stats.TTLSeconds), 30, 60)
	for key, value := range map[string]Millis{"lock_wait_warn_ms": o.LockWaitWarnMS, "path_warn_ms": o.PathWarnMS} {
		v.requireYear("scheduler.observability."+key, int64(value), time.Millisecond)
		v.requireMin("scheduler.observability."+key, int64(value), 1)
	}
}

// IsLoopback reports whether a host can only be reached from this machine.
func IsLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// isBareURL reports whether a text is a scheme, a host and perhaps a port, and nothing else. Paths are appended to it, and
// every node and instance is shown it.
func isBareURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && strings.EqualFold(u.Scheme+"://"+u.Host, text)
}

// exposureText explains why an address that is not loopback is refused without keys. It suits the file, the environment
// and --listen alike.
func (s *Server) exposureText() string {
	exposure := "is not loopback: other machines may reach it"
	if ip := net.ParseIP(s.Host); s.Host == "" || ip != nil && ip.IsUnspecified() {
		exposure = "listens on every interface of this machine"
	}
	return fmt.Sprintf("%s %s, and without keys every client that reaches it controls the fleet; use 127.0.0.1 (--listen %s), or "+
		"--insecure if no other client can reach it",
		s.Address(), exposure, net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)))
}

// minCallbackSecret is the minimum length of a secret that signs requests, as of every secret that signs.
const minCallbackSecret = 32

const notAPrefix = "%q is not a CIDR prefix such as 10.0.0.0/8 or ::1/128"

// Prefixes returns the networks in which callback addresses may be.
func (c *Callback) Prefixes() ([]netip.Prefix, error) {
	prefixes := make([]netip.Prefix, 0, len(c.AllowedTargets))
	for _, s := range c.AllowedTargets {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, fmt.Errorf(allowedTargetsKey+": "+notAPrefix, s)
		}
		prefixes = append(prefixes, p.Masked())
	}
	return prefixes, nil
}
