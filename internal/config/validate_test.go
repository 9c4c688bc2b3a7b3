package config

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// validationErrors returns the problems of a configuration.
func validationErrors(c *Config) []string {
	var all []string
	for _, p := range c.validate() {
		all = append(all, p.String())
	}
	return all
}

// rule is a change of the defaults that fails one check.
type rule struct {
	key    string
	name   string
	change func(*Config)
}

// rules has, for every check, a change of the defaults that fails it and no other.
var rules = []rule{
	{"store", "unknown", func(c *Config) { c.Store = "sqlite" }},
	{"store", "without a host", func(c *Config) { c.Store = "redis:///0" }},
	{"scheduler.phase2.redis.url", "missing", func(c *Config) { c.Scheduler.Phase2.Enabled = true }},
	{"scheduler.phase2.redis.url", "beside another", func(c *Config) {
		c.Scheduler.Phase2.Enabled = true
		c.Scheduler.Phase2.Redis.URL, c.Scheduler.Phase2.Redis.ClusterURLs = "redis://a", []string{"redis://b"}
	}},
	{"scheduler.phase2.redis.cluster_urls", "a bad port", func(c *Config) {
		c.Scheduler.Phase2.Enabled, c.Scheduler.Phase2.Redis.ClusterURLs = true, []string{"redis://a:x", "redis://b"}
	}},
	{"scheduler.phase2.redis.sentinel_urls", "no primary's name", func(c *Config) {
		c.Scheduler.Phase2.Enabled, c.Scheduler.Phase2.Redis.SentinelURLs = true, []string{"redis://a:26379"}
	}},
	{"scheduler.phase2.redis.key_prefix", "a brace", func(c *Config) { c.Scheduler.Phase2.Redis.KeyPrefix = "a{b" }},
	{"server.port", "negative", func(c *Config) { c.Server.Port = -1 }},
	{"server.port", "too high", func(c *Config) { c.Server.Port = 65_536 }},
	{"server.shutdown_seconds", "negative", func(c *Config) { c.Server.ShutdownSeconds = -1 }},
	{"server.shutdown_seconds", "over an hour", func(c *Config) { c.Server.ShutdownSeconds = 3601 }},
	{"server.drain_delay_ms", "negative", func(c *Config) { c.Server.DrainDelayMS = -1 }},
	{"server.drain_delay_ms", "over a minute", func(c *Config) { c.Server.DrainDelayMS = 60_001 }},
	{"server.host", "every address", func(c *Config) { c.Server.Host = "0.0.0.0" }},
	{"server.host", "empty, which is every address", func(c *Config) { c.Server.Host = "" }},
	{"log.level", "unknown", func(c *Config) { c.Log.Level = "loud" }},
	{"log.level", "empty", func(c *Config) { c.Log.Level = "" }},
	{"log.format", "unknown", func(c *Config) { c.Log.Format = "xml" }},
	{"log.format", "empty", func(c *Config) { c.Log.Format = "" }},
	{"server.tls_cert", "without its key", func(c *Config) { c.Server.TLSKey = "key.pem" }},
	{"server.tls_cert", "missing", func(c *Config) { c.Server.TLSCert, c.Server.TLSKey = "/does/not/exist.pem", "/does/not/exist.key" }},
	{"server.tls_key", "without its certificate", func(c *Config) { c.Server.TLSCert = "cert.pem" }},
	{"server.tls_ca", "missing", func(c *Config) { c.Server.TLSCA = "/does/not/exist.pem" }},
	{"scheduler.phase2.redis.tls_ca", "missing", func(c *Config) {
		c.Store, c.Scheduler.Phase2.Redis.TLSCA = "rediss://a", "/does/not/exist.pem"
	}},
	{"callback.secret", "short", func(c *Config) { c.Callback.Secret = "short" }},
	{"audit.output", "a relative path", func(c *Config) { c.Audit.Output = "audit.log" }},
	{"audit.output", "another stream", func(c *Config) { c.Audit.Output = "stdout" }},
	{"callback.allowed_targets", "an address", func(c *Config) { c.Callback.AllowedTargets = []string{"10.0.0.1"} }},

	{"scheduler.nodes.heartbeat_interval_ms", "too short", func(c *Config) { c.Scheduler.Nodes.HeartbeatIntervalMS = 9 }},
	{"scheduler.nodes.presence_ttl_ms", "under three heartbeats", func(c *Config) {
		c.Scheduler.Nodes.PresenceTTLMS, c.Scheduler.Dispatch.HeartbeatStaleMS = 14_999, 14_999
	}},
	{"scheduler.nodes.retention_seconds", "under the presence", func(c *Config) { c.Scheduler.Nodes.RetentionSeconds = 14 }},

	{"scheduler.task_binding.lease_seconds", "none", func(c *Config) { c.Scheduler.TaskBinding.LeaseSeconds = 0 }},
	{"scheduler.task_binding.reserved_ttl_seconds", "as long as the ACK", func(c *Config) { c.Scheduler.TaskBinding.ReservedTTLSeconds = 2 }},
	{"scheduler.task_binding.spread_window_seconds", "none, but spread", func(c *Config) {
		c.Scheduler.TaskBinding.SpreadEnabled, c.Scheduler.TaskBinding.SpreadWindowSeconds = true, 0
	}},

	{"scheduler.phase2.instance_id", "none", func(c *Config) { c.Scheduler.Phase2.InstanceID = "" }},
	{"scheduler.phase2.instance_id", "a key of its own", func(c *Config) { c.Scheduler.Phase2.InstanceID = "a}b" }},
	{"scheduler.phase2.heartbeat_ttl_seconds", "none", func(c *Config) { c.Scheduler.Phase2.HeartbeatTTLSeconds = 0 }},
	{"scheduler.phase2.stream_block_ms", "too short", func(c *Config) { c.Scheduler.Phase2.StreamBlockMS = 9 }},
	{"scheduler.phase2.dlq_ttl_seconds", "none", func(c *Config) { c.Scheduler.Phase2.DLQTTLSeconds = 0 }},
	{"server.advertise_url", "no address", func(c *Config) { c.Server.AdvertiseURL = "somewhere" }},
	{"server.advertise_url", "another scheme", func(c *Config) { c.Server.AdvertiseURL = "redis://10.0.0.1:5010" }},
	{"server.advertise_url", "no host", func(c *Config) { c.Server.AdvertiseURL = "http://:5010" }},
	{"server.advertise_url", "a password", func(c *Config) { c.Server.AdvertiseURL = "http://user:password@10.0.0.1:5010" }},
	{"server.advertise_url", "a path", func(c *Config) { c.Server.AdvertiseURL = "http://10.0.0.1:5010/lingua" }},
	{"server.advertise_url", "a slash", func(c *Config) { c.Server.AdvertiseURL = "http://10.0.0.1:5010/" }},
	{"server.advertise_url", "a query", func(c *Config) { c.Server.AdvertiseURL = "http://10.0.0.1:5010?key=value" }},
	{"server.advertise_url", "an empty query", func(c *Config) { c.Server.AdvertiseURL = "http://10.0.0.1:5010?" }},
	{"server.advertise_url", "a fragment", func(c *Config) { c.Server.AdvertiseURL = "http://10.0.0.1:5010#here" }},
	{"auth.operator_keys", "short", func(c *Config) { c.Auth.OperatorKeys = []string{"short"} }},
	{"auth.operator_keys", "none beside others", func(c *Config) { c.Auth.NodeTokens = []string{"gpu-*=0123456789abcdef"} }},
	{"auth.node_tokens", "without a pattern", func(c *Config) {
		c.Auth.OperatorKeys, c.Auth.NodeTokens = []string{"0123456789abcdef"}, []string{"0123456789abcdef"}
	}},
	{"auth.session_secret", "short", func(c *Config) { c.Auth.OperatorKeys, c.Auth.SessionSecret = []string{"0123456789abcdef"}, "short" }},
	{"auth.cluster_secret", "three", func(c *Config) {
		c.Auth.ClusterSecrets = []string{strings.Repeat("a", 32), strings.Repeat("b", 32), strings.Repeat("c", 32)}
	}},
	{"auth.cluster_secret", "short", func(c *Config) { c.Auth.ClusterSecrets = []string{"short"} }},
	{"auth.login_seconds", "none", func(c *Config) { c.Auth.LoginSeconds = 0 }},
	{"auth.login_seconds", "too long", func(c *Config) { c.Auth.LoginSeconds = 31 * 24 * 3600 }},
	{"auth.session_grace_seconds", "negative", func(c *Config) { c.Auth.SessionGraceSeconds = -1 }},
	{"scheduler.web_task_segmentation.pause_ms", "none", func(c *Config) { c.Scheduler.Segmentation.PauseMS = 0 }},
	{"scheduler.web_task_segmentation.max_utterance_ms", "too long", func(c *Config) { c.Scheduler.Segmentation.MaxUtteranceMS = 60_001 }},
	{"scheduler.web_task_segmentation.silence_level", "too loud", func(c *Config) { c.Scheduler.Segmentation.SilenceLevel = 1.5 }},
	{"scheduler.sessions.resume_seconds", "none", func(c *Config) { c.Scheduler.Sessions.ResumeSeconds = 0 }},
	{"scheduler.sessions.idle_seconds", "none", func(c *Config) { c.Scheduler.Sessions.IdleSeconds = 0 }},
	{"scheduler.sessions.wait_ms", "negative", func(c *Config) { c.Scheduler.Sessions.WaitMS = -1 }},
	{"scheduler.sessions.join_wait_ms", "negative", func(c *Config) { c.Scheduler.Sessions.JoinWaitMS = -1 }},
	{"scheduler.sessions.ahead_ms", "none", func(c *Config) { c.Scheduler.Sessions.AheadMS = 0 }},
	{"scheduler.sessions.utterances_per_second", "none", func(c *Config) { c.Scheduler.Sessions.UtteranceRate = 0 }},
	{"scheduler.sessions.open_utterances", "none", func(c *Config) { c.Scheduler.Sessions.OpenUtterances = 0 }},
	{"scheduler.sessions.outbox_kb", "less than a frame", func(c *Config) { c.Scheduler.Sessions.OutboxKB = 255 }},
	{"scheduler.sessions.audio_buffer_mb", "none", func(c *Config) { c.Scheduler.Sessions.AudioBufferMB = 0 }},
	{"server.per_address", "negative", func(c *Config) { c.Server.PerAddress = -1 }},
	{"scheduler.sessions.per_address", "negative", func(c *Config) { c.Scheduler.Sessions.PerAddress = -1 }},
	{"scheduler.sessions.disconnect_grace_ms", "negative", func(c *Config) { c.Scheduler.Sessions.DisconnectGraceMS = -1 }},

	{"scheduler.dispatch.sample_k", "none", func(c *Config) { c.Scheduler.Dispatch.SampleK = 0 }},
	{"scheduler.dispatch.sample_k", "too many", func(c *Config) { c.Scheduler.Dispatch.SampleK = 257 }},
	{"scheduler.dispatch.scan_max", "under the sample", func(c *Config) { c.Scheduler.Dispatch.ScanMax = 19 }},
	{"scheduler.dispatch.scan_max", "too many", func(c *Config) { c.Scheduler.Dispatch.ScanMax = 100_001 }},
	{"scheduler.dispatch.decide_within_ms", "none", func(c *Config) { c.Scheduler.Dispatch.DecideWithinMS = 0 }},
	{"scheduler.dispatch.decide_within_ms", "too long", func(c *Config) { c.Scheduler.Dispatch.DecideWithinMS = 10_001 }},
	{"scheduler.dispatch.ack_timeout_ms", "none", func(c *Config) { c.Scheduler.Dispatch.ACKTimeoutMS = 0 }},
	{"scheduler.dispatch.attempt_timeout_ms", "as long as the ACK", func(c *Config) { c.Scheduler.Dispatch.AttemptTimeoutMS = 2000 }},
	{"scheduler.dispatch.job_timeout_ms", "as long as an attempt", func(c *Config) { c.Scheduler.Dispatch.JobTimeoutMS = 15_000 }},
	{"scheduler.dispatch.job_timeout_ms", "over an hour", func(c *Config) { c.Scheduler.Dispatch.JobTimeoutMS = 3_600_001 }},
	{"scheduler.dispatch.max_retry", "negative", func(c *Config) { c.Scheduler.Dispatch.MaxRetry = -1 }},
	{"scheduler.dispatch.max_retry", "too many", func(c *Config) { c.Scheduler.Dispatch.MaxRetry = 11 }},
	{"scheduler.dispatch.heartbeat_stale_ms", "under a heartbeat", func(c *Config) { c.Scheduler.Dispatch.HeartbeatStaleMS = 4999 }},
	{"scheduler.dispatch.heartbeat_stale_ms", "over the presence", func(c *Config) { c.Scheduler.Dispatch.HeartbeatStaleMS = 15_001 }},

	{"scheduler.resource_limits.cpu_max", "none", func(c *Config) { c.Scheduler.ResourceLimits.CPUMax = 0 }},
	{"scheduler.resource_limits.cpu_max", "a percentage", func(c *Config) { c.Scheduler.ResourceLimits.CPUMax = 95 }},
	{"scheduler.resource_limits.cpu_max", "not a number", func(c *Config) { c.Scheduler.ResourceLimits.CPUMax = math.NaN() }},
	{"scheduler.resource_limits.gpu_max", "none", func(c *Config) { c.Scheduler.ResourceLimits.GPUMax = 0 }},
	{"scheduler.resource_limits.gpu_max", "endless", func(c *Config) { c.Scheduler.ResourceLimits.GPUMax = math.Inf(1) }},
	{"scheduler.resource_limits.memory_max", "negative", func(c *Config) { c.Scheduler.ResourceLimits.MemoryMax = -0.1 }},
	{"scheduler.resource_limits.memory_max", "just over", func(c *Config) { c.Scheduler.ResourceLimits.MemoryMax = 1.001 }},

	{"scheduler.model_not_available.mark_ttl_seconds", "none", func(c *Config) { c.Scheduler.ModelNotAvailable.MarkTTLSeconds = 0 }},
	{"scheduler.model_not_available.node_rate_per_minute", "none", func(c *Config) { c.Scheduler.ModelNotAvailable.NodeRatePerMinute = 0 }},
	{"scheduler.stats.interval_seconds", "too short", func(c *Config) { c.Scheduler.Stats.IntervalSeconds = 4 }},
	{"scheduler.stats.interval_seconds", "too long", func(c *Config) { c.Scheduler.Stats.IntervalSeconds = 11 }},
	{"scheduler.stats.ttl_seconds", "too short", func(c *Config) { c.Scheduler.Stats.TTLSeconds = 29 }},
	{"scheduler.stats.ttl_seconds", "too long", func(c *Config) { c.Scheduler.Stats.TTLSeconds = 61 }},
	{"scheduler.model_not_available.debounce_seconds", "none", func(c *Config) { c.Scheduler.ModelNotAvailable.DebounceSeconds = 0 }},
	{"scheduler.model_not_available.rate_window_seconds", "none", func(c *Config) { c.Scheduler.ModelNotAvailable.RateWindowSeconds = 0 }},
	{"scheduler.model_not_available.rate_window_seconds", "nothing is allowed in it", func(c *Config) {
		c.Scheduler.ModelNotAvailable.NodeRatePerMinute, c.Scheduler.ModelNotAvailable.RateWindowSeconds = 7, 8
	}},
	{"scheduler.model_hub.url", "no address", func(c *Config) { c.Scheduler.ModelHub.URL = "hub:8080/services" }},
	{"scheduler.model_hub.url", "with a user", func(c *Config) { c.Scheduler.ModelHub.URL = "https://user:pass@hub/services" }},
	{"scheduler.model_hub.url", "with a fragment", func(c *Config) { c.Scheduler.ModelHub.URL = "https://hub/services#all" }},
	{"scheduler.model_hub.refresh_seconds", "none", func(c *Config) { c.Scheduler.ModelHub.RefreshSeconds = 0 }},
	{"scheduler.model_hub.timeout_ms", "none", func(c *Config) { c.Scheduler.ModelHub.TimeoutMS = 9 }},
	{"scheduler.model_hub.token", "two lines", func(c *Config) { c.Scheduler.ModelHub.Token = "a\nb" }},
	{"scheduler.observability.lock_wait_warn_ms", "none", func(c *Config) { c.Scheduler.Observability.LockWaitWarnMS = 0 }},
	{"scheduler.observability.lock_wait_warn_ms", "too long", func(c *Config) { c.Scheduler.Observability.LockWaitWarnMS = 1 << 50 }},
	{"scheduler.observability.path_warn_ms", "none", func(c *Config) { c.Scheduler.Observability.PathWarnMS = 0 }},
}

// unchecked are the keys for which every value is valid.
var unchecked = map[string]bool{
	"server.insecure": true, "auth.require_node_secret": true,
	"scheduler.task_binding.spread_enabled": true, "scheduler.outlier_ejection.enabled": true, "scheduler.dispatch.candidate_shuffle": true,
	"scheduler.sessions.origins": true, "scheduler.phase3.enabled": true, "scheduler.phase3.strict_pool_eligibility": true, "scheduler.phase3.hash_seed": true,
	"scheduler.phase2.enabled": true, "scheduler.phase2.redis.sentinel_master": true,
	"scheduler.phase2.redis.username": true, "scheduler.phase2.redis.password": true,
	"scheduler.phase2.redis.sentinel_username": true, "scheduler.phase2.redis.sentinel_password": true,
}

func TestDefaultsAreValid(t *testing.T) {
	t.Parallel()
	c := Default()
	if found := validationErrors(&c); found != nil {
		t.Error(found)
	}
}

// TestEachRule checks that each change gives one problem, with its key.
func TestEachRule(t *testing.T) {
	t.Parallel()
	for _, r := range slices.Concat(rules, tracingRules, poolRules, tenantRules, webRules) {
		t.Run(r.key+" "+r.name, func(t *testing.T) {
			t.Parallel()
			c := Default()
			r.change(&c)
			found := validationErrors(&c)
			if len(found) != 1 {
				t.Fatalf("found %d problems, want one: %q", len(found), found)
			}
			if !strings.HasPrefix(found[0], r.key+": ") {
				t.Errorf("the message does not begin with %q: %s", r.key+": ", found[0])
			}
		})
	}
}

// TestEveryKeyHasARule checks that a new key gets a rule, or an entry in unchecked.
func TestEveryKeyHasARule(t *testing.T) {
	t.Parallel()
	checked := make(map[string]bool)
	for _, r := range slices.Concat(rules, tracingRules, poolRules, tenantRules, webRules) {
		checked[r.key] = true
	}
	c := Default()
	for _, k := range listSettings(&c) {
		if checked[k.key] == unchecked[k.key] {
			t.Errorf("%s: has a rule: %v, needs none: %v", k.key, checked[k.key], unchecked[k.key])
		}
	}
}

// TestValidateReportsAllProblems checks that all problems are reported at once.
func TestValidateReportsAllProblems(t *testing.T) {
	t.Parallel()
	c := Config{Store: "sqlite", Server: Server{Host: "0.0.0.0", Port: -1}}
	got := strings.Join(validationErrors(&c), "\n")
	for _, k := range []string{"store:", "server.port:", "server.host:", "scheduler.dispatch.sample_k:", "scheduler.resource_limits.gpu_max:"} {
		if !strings.Contains(got, k) {
			t.Errorf("%s is missing from\n%s", k, got)
		}
	}
}

// TestValidateOrderIsStable checks that the same problems give the same text at each start, so that logs can be compared.
func TestValidateOrderIsStable(t *testing.T) {
	t.Parallel()
	c := Default()
	c.Scheduler.ResourceLimits, c.Log, c.Callback.AllowedTargets = ResourceLimits{}, Log{}, []string{"a", "b"}
	want := validationErrors(&c)
	if len(want) != 7 {
		t.Fatalf("found %d problems, want 7: %q", len(want), want)
	}
	for range 50 {
		if diff := cmp.Diff(want, validationErrors(&c)); diff != "" {
			t.Fatalf("another order (-first +later):\n%s", diff)
		}
	}
}

// TestBoundsAreInclusive checks that the last valid value at each bound is accepted.
func TestBoundsAreInclusive(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Config){
		"a name and no port":   func(c *Config) { c.Server.AdvertiseURL = "https://lingua-1.internal" },
		"an IPv6 address":      func(c *Config) { c.Server.AdvertiseURL = "http://[fd00::1]:5010" },
		"free port":            func(c *Config) { c.Server.Port = 0 },
		"highest port":         func(c *Config) { c.Server.Port = 65_535 },
		"stop at once":         func(c *Config) { c.Server.ShutdownSeconds = 0 },
		"stop within the hour": func(c *Config) { c.Server.ShutdownSeconds = 3600 },
		"insecure":             func(c *Config) { c.Server.Host, c.Server.Insecure = "0.0.0.0", true },
		"json":                 func(c *Config) { c.Log.Format = "json" },
		"debug":                func(c *Config) { c.Log.Level = "debug" },
		"warn":                 func(c *Config) { c.Log.Level = "warn" },
		"error":                func(c *Config) { c.Log.Level = "error" },
		"no callbacks at all":  func(c *Config) { c.Callback.AllowedTargets = nil },
		"shortest heartbeat": func(c *Config) {
			c.Scheduler.Nodes.HeartbeatIntervalMS, c.Scheduler.Nodes.PresenceTTLMS, c.Scheduler.Dispatch.HeartbeatStaleMS = 10, 30, 10
		},
		"retention is the presence": func(c *Config) { c.Scheduler.Nodes.RetentionSeconds = 15 },
		"shortest lease":            func(c *Config) { c.Scheduler.TaskBinding.LeaseSeconds = 1 },
		"reserved just over the ACK": func(c *Config) {
			c.Scheduler.TaskBinding.ReservedTTLSeconds, c.Scheduler.Dispatch.ACKTimeoutMS = 2, 1999
		},
		"no spread, no window": func(c *Config) { c.Scheduler.TaskBinding.SpreadWindowSeconds = 0 },
		"shortest window": func(c *Config) {
			c.Scheduler.TaskBinding.SpreadEnabled, c.Scheduler.TaskBinding.SpreadWindowSeconds = true, 1
		},
		"sample of one":      func(c *Config) { c.Scheduler.Dispatch.SampleK = 1 },
		"largest sample":     func(c *Config) { c.Scheduler.Dispatch.SampleK = 256 },
		"scan is the sample": func(c *Config) { c.Scheduler.Dispatch.ScanMax = 20 },
		"largest scan":       func(c *Config) { c.Scheduler.Dispatch.ScanMax = 100_000 },
		"ACK, attempt and job": func(c *Config) {
			d := &c.Scheduler.Dispatch
			d.ACKTimeoutMS, d.AttemptTimeoutMS, d.JobTimeoutMS = 1, 2, 3
		},
		"job of an hour":         func(c *Config) { c.Scheduler.Dispatch.JobTimeoutMS = 3_600_000 },
		"no retry":               func(c *Config) { c.Scheduler.Dispatch.MaxRetry = 0 },
		"ten retries":            func(c *Config) { c.Scheduler.Dispatch.MaxRetry = 10 },
		"stale at one heartbeat": func(c *Config) { c.Scheduler.Dispatch.HeartbeatStaleMS = 5000 },
		"limits of one": func(c *Config) {
			c.Scheduler.ResourceLimits = ResourceLimits{CPUMax: 1, GPUMax: 1, MemoryMax: 1}
		},
		"one report in a window": func(c *Config) {
			c.Scheduler.ModelNotAvailable.NodeRatePerMinute, c.Scheduler.ModelNotAvailable.RateWindowSeconds = 7, 9
		},
		"smallest of the rest": func(c *Config) {
			c.Scheduler.ModelNotAvailable = ModelNotAvailable{MarkTTLSeconds: 1, DebounceSeconds: 1, NodeRatePerMinute: 60, RateWindowSeconds: 1}
			c.Scheduler.ModelHub = ModelHub{URL: "http://h", RefreshSeconds: 1, TimeoutMS: 10, Token: "!~"}
			c.Scheduler.Observability = Observability{LockWaitWarnMS: 1, PathWarnMS: 1}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := Default()
			change(&c)
			if found := validationErrors(&c); found != nil {
				t.Error(found)
			}
		})
	}
}

// TestNoDurationOverflows checks that a number whose duration would overflow is refused.
func TestNoDurationOverflows(t *testing.T) {
	t.Parallel()
	names := Default()
	for i, k := range listSettings(&names) {
		var unit int64
		switch k.field.Interface().(type) {
		case Millis:
			unit = 1e6
		case Seconds:
			unit = 1e9
		default:
			continue
		}
		t.Run(k.key, func(t *testing.T) {
			t.Parallel()
			for _, v := range []int64{math.MaxInt64/unit + 1, 3 * (math.MaxInt64 / unit), math.MaxInt64} {
				c := Default()
				c.Scheduler.TaskBinding.SpreadEnabled = true // otherwise the window is not checked
				listSettings(&c)[i].field.SetInt(v)
				if validationErrors(&c) == nil {
					t.Errorf("%d is accepted, as a duration of %d ns", v, v*unit)
				}
			}
		})
	}
}

func TestIsLoopback(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"127.0.0.1":        true,
		"127.255.255.254":  true,
		"::1":              true,
		"::ffff:127.0.0.1": true,
		"localhost":        true,
		"LocalHost":        true,

		"":                      false, // listens on every address
		"0.0.0.0":               false,
		"::":                    false,
		"128.0.0.1":             false,
		"10.0.0.1":              false,
		"192.168.1.1":           false,
		"169.254.1.1":           false,
		"fe80::1":               false,
		"::ffff:10.0.0.1":       false,
		"::2":                   false,
		"example.com":           false, // may resolve to anything
		"localhost.example.com": false,
		"127.0.0.1.example.com": false,
		"127.1":                 false,
		"0177.0.0.1":            false,
		"2130706433":            false,
		"127.0.0.1:5010":        false, // an address with a port is no host
		"[::1]":                 false,
		" 127.0.0.1":            false,
		"*":                     false,
	} {
		if got := IsLoopback(host); got != want {
			t.Errorf("IsLoopback(%q) = %v, want %v", host, got, want)
		}
	}
}

func TestAddress(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		server Server
		want   string
	}{
		{Server{Host: "127.0.0.1", Port: 5010}, "127.0.0.1:5010"},
		{Server{Host: "::1", Port: 0}, "[::1]:0"},
		{Server{Host: "", Port: 80}, ":80"},
	} {
		if diff := cmp.Diff(c.want, c.server.Address()); diff != "" {
			t.Errorf("address of %+v (-want +got):\n%s", c.server, diff)
		}
	}
}

func TestExposureText(t *testing.T) {
	t.Parallel()
	const every, other = " listens on every interface of this machine, ", " is not loopback: other machines may reach it, "
	for host, want := range map[string]string{
		"": ":5011" + every, "0.0.0.0": "0.0.0.0:5011" + every, "::": "[::]:5011" + every,
		"192.0.2.1": "192.0.2.1:5011" + other, "gpu-7.internal": "gpu-7.internal:5011" + other,
	} {
		got := (&Server{Host: host, Port: 5011}).exposureText()
		if !strings.HasPrefix(got, want) || !strings.Contains(got, "(--listen 127.0.0.1:5011)") {
			t.Errorf("%q: got %q, want it to begin with %q", host, got, want)
		}
	}
}

func TestPrefixes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		targets []string
		want    []string
	}{
		{"none", nil, []string{}},
		{"the defaults", Default().Callback.AllowedTargets, []string{"127.0.0.0/8", "::1/128"}},
		{"bits beyond the prefix are dropped", []string{"10.1.2.3/8", "fd00::1/8"}, []string{"10.0.0.0/8", "fd00::/8"}},
		{"one address", []string{"192.168.1.7/32"}, []string{"192.168.1.7/32"}},
		{"everything", []string{"0.0.0.0/0", "::/0"}, []string{"0.0.0.0/0", "::/0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			prefixes, err := (&Callback{AllowedTargets: c.targets}).Prefixes()
			if err != nil {
				t.Fatal(err)
			}
			got := make([]string, len(prefixes))
			for i, p := range prefixes {
				got[i] = p.String()
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("prefixes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPrefixesErrors checks that one invalid entry refuses the list: without it the list could allow more or less than was
// meant.
func TestPrefixesErrors(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "10.0.0.1", "10.0.0.0/33", "::1/129", "10.0.0.0/-1", "10.0.0.0/", "/8", "localhost/8", "10.0.0/8", " 10.0.0.0/8", "fe80::1%eth0/64"} {
		prefixes, err := (&Callback{AllowedTargets: []string{"127.0.0.0/8", bad}}).Prefixes()
		if err == nil || prefixes != nil {
			t.Errorf("%q: got %v, %v, want an error and nothing else", bad, prefixes, err)
			continue
		}
		for _, part := range []string{"callback.allowed_targets: ", `"` + bad + `"`, "such as 10.0.0.0/8"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q: the error %q does not contain %q", bad, err, part)
			}
		}
	}
}
