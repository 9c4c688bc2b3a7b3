// Package config is the configuration of the scheduler: one struct, its defaults, and how a file, the environment and flags fill it. It is
// validated as a whole, so that no setting makes another unreachable. It also reads the configuration of a running scheduler again, and
// puts in force what can change without a restart: each part that can change registers a section.
package config

import (
	"net"
	"strconv"
	"time"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/core"
)

// Millis is a duration in milliseconds, as in the file.
type Millis int64

// Duration returns m as a time.Duration.
func (m Millis) Duration() time.Duration { return time.Duration(m) * time.Millisecond }

// Seconds is a duration in seconds, as in the file.
type Seconds int64

// Duration returns s as a time.Duration.
func (s Seconds) Duration() time.Duration { return time.Duration(s) * time.Second }

// Config is the whole configuration. Every field has its default in Default and its meaning in its doc tag,
// from which the reference is made.
type Config struct {
	Store     string    `toml:"store" env:"STORE" doc:"Where state is stored. memory: in this process, for a single instance. redis://host:6379/0, rediss://, redis-sentinel://host:26379,…/master/0 or redis-cluster://host:6379,…: in Redis, for any number of instances. Empty: memory, or Redis by scheduler.phase2."`
	Server    Server    `toml:"server" envPrefix:"SERVER_"`
	Log       Log       `toml:"log" envPrefix:"LOG_"`
	Auth      Auth      `toml:"auth" envPrefix:"AUTH_"`
	Audit     Audit     `toml:"audit" envPrefix:"AUDIT_"`
	Callback  Callback  `toml:"callback" envPrefix:"CALLBACK_"`
	Dashboard Dashboard `toml:"dashboard" envPrefix:"DASHBOARD_"`
	Scheduler Scheduler `toml:"scheduler" envPrefix:"SCHEDULER_"`
}

// Server configures the listener.
type Server struct {
	Host            string  `toml:"host" env:"HOST" doc:"Address to listen on. Any other than loopback requires keys, or insecure."`
	Port            int     `toml:"port" env:"PORT" doc:"Port to listen on; 0 picks a free one."`
	Insecure        bool    `toml:"insecure" env:"INSECURE" doc:"Listen on other addresses than loopback without keys. Every client that reaches the port then controls the fleet."`
	AdvertiseURL    string  `toml:"advertise_url" env:"ADVERTISE_URL" doc:"URL at which the other instances and all nodes reach this one, with nothing after the port: nodes that are connected to another instance fetch audio here. Default: http, or https with tls_cert, and the address that it listens on or, if that is every interface (0.0.0.0), the address from which it reaches the first host of Redis."`
	TLSCert         string  `toml:"tls_cert" env:"TLS_CERT" doc:"A file with the certificate of this instance in PEM, followed by intermediate ones, for https and wss with TLS 1.2 or newer. It is read again when it changes. Empty: no TLS."`
	TLSKey          string  `toml:"tls_key" env:"TLS_KEY" doc:"The file with the key of the certificate."`
	TLSCA           string  `toml:"tls_ca" env:"TLS_CA" doc:"A file with the authorities, in PEM, that this instance trusts when it connects to the other instances. Empty: those of the system."`
	BasePath        string  `toml:"base_path" env:"BASE_PATH" doc:"A path such as /lingua below which everything answers, too, for a proxy that forwards the paths below its prefix as they are. A proxy that removes its prefix needs none."`
	PerAddress      int     `toml:"per_address" env:"PER_ADDRESS" doc:"Maximum number of connections of one client address that are not WebSockets, 0: no limit. Behind a load balancer all connections come from its address: set 0 and limit them there."`
	ShutdownSeconds Seconds `toml:"shutdown_seconds" env:"SHUTDOWN_SECONDS" doc:"How long a shutdown may take; in-flight jobs have so long to end."`
	DrainDelayMS    Millis  `toml:"drain_delay_ms" env:"DRAIN_DELAY_MS" doc:"How long an instance that stops, and is not ready any more, still takes new dispatches, if there are others: load balancers must have noticed by then. A part of shutdown_seconds, and at most half of it."`
}

// Address returns the address to listen on.
func (s *Server) Address() string { return net.JoinHostPort(s.Host, strconv.Itoa(s.Port)) }

// Log configures the log.
type Log struct {
	Level  string `toml:"level" env:"LEVEL" doc:"Minimum level: debug, info, warn or error."`
	Format string `toml:"format" env:"FORMAT" doc:"text or json."`
}

// Audit configures the audit log.
type Audit struct {
	Output string `toml:"output" env:"OUTPUT" doc:"Where changes of state and denials are written, one JSON object a line, beside the audit log in the store: stderr, or the absolute path of a file, which SIGHUP opens again. Empty: nowhere."`
}

// Callback configures requests to HTTP nodes.
type Callback struct {
	AllowedTargets []string `toml:"allowed_targets" env:"ALLOWED_TARGETS" doc:"Networks to which callback_url of a node may point, as CIDR prefixes. If it is not set and there are keys, it is empty: no node may have a callback_url."`
	Secret         string   `toml:"secret" env:"SECRET" doc:"Signs requests to callback_url, in the header X-Lingua-Signature. At least 32 characters. Empty: not signed."`
}

// Scheduler configures jobs, nodes and sessions.
type Scheduler struct {
	Nodes             Nodes             `toml:"nodes" envPrefix:"NODES_"`
	TaskBinding       TaskBinding       `toml:"task_binding" envPrefix:"TASK_BINDING_"`
	Dispatch          Dispatch          `toml:"dispatch" envPrefix:"DISPATCH_"`
	ResourceLimits    ResourceLimits    `toml:"resource_limits" envPrefix:"RESOURCE_LIMITS_"`
	ModelNotAvailable ModelNotAvailable `toml:"model_not_available" envPrefix:"MODEL_NOT_AVAILABLE_"`
	ModelHub          ModelHub          `toml:"model_hub" envPrefix:"MODEL_HUB_"`
	Segmentation      Segmentation      `toml:"web_task_segmentation" envPrefix:"WEB_TASK_SEGMENTATION_"`
	Sessions          Sessions          `toml:"sessions" envPrefix:"SESSIONS_"`
	OutlierEjection   OutlierEjection   `toml:"outlier_ejection" envPrefix:"OUTLIER_EJECTION_"`
	Stats             Stats             `toml:"stats" envPrefix:"STATS_"`
	Observability     Observability     `toml:"observability" envPrefix:"OBSERVABILITY_"`
	Tracing           Tracing           `toml:"tracing" envPrefix:"TRACING_"`
	Phase2            Phase2            `toml:"phase2" envPrefix:"PHASE2_"`
	Phase3            Phase3            `toml:"phase3" envPrefix:"PHASE3_"`
	Tenants           []Tenant          `toml:"tenants" doc:"The weight of a tenant and its limits over all instances. A limit that is 0 or absent is none. Set the same on all instances; a reload puts changes in force."`
}

// Segmentation configures where an utterance ends, unless its session overrides it.
type Segmentation struct {
	PauseMS        Millis  `toml:"pause_ms" env:"PAUSE_MS" doc:"End an utterance after this time without audio, or of silence."`
	MaxUtteranceMS Millis  `toml:"max_utterance_ms" env:"MAX_UTTERANCE_MS" doc:"End an utterance after this duration of audio."`
	SilenceLevel   float64 `toml:"silence_level" env:"SILENCE_LEVEL" doc:"PCM quieter than this is silence; full scale is 1, and with 0 nothing counts as silence."`
}

// Sessions configures sessions.
type Sessions struct {
	ResumeSeconds     Seconds  `toml:"resume_seconds" env:"RESUME_SECONDS" doc:"How long after a lost connection a session can be resumed."`
	IdleSeconds       Seconds  `toml:"idle_seconds" env:"IDLE_SECONDS" doc:"A session without a frame from its client for this time is closed."`
	WaitMS            Millis   `toml:"wait_ms" env:"WAIT_MS" doc:"How long an utterance waits for a node with a free slot before it ends with an error."`
	JoinWaitMS        Millis   `toml:"join_wait_ms" env:"JOIN_WAIT_MS" doc:"How long an utterance waits if no registered node can serve it: one may be registering."`
	AheadMS           Millis   `toml:"ahead_ms" env:"AHEAD_MS" doc:"How far audio may run ahead of real time."`
	OpenUtterances    int      `toml:"open_utterances" env:"OPEN_UTTERANCES" doc:"Maximum number of utterances of a session that wait for their results."`
	UtteranceRate     int      `toml:"utterances_per_second" env:"UTTERANCES_PER_SECOND" doc:"How many utterances a session may begin each second, on average."`
	OutboxKB          int      `toml:"outbox_kb" env:"OUTBOX_KB" doc:"Maximum KiB of results of a session that its client has not acknowledged; beyond it the oldest are dropped, and a resume reports it."`
	AudioBufferMB     int      `toml:"audio_buffer_mb" env:"AUDIO_BUFFER_MB" doc:"Maximum MiB of audio of all sessions that this instance holds."`
	PerAddress        int      `toml:"per_address" env:"PER_ADDRESS" doc:"Maximum number of WebSockets of one client address, 0: no limit."`
	DisconnectGraceMS Millis   `toml:"disconnect_grace_ms" env:"DISCONNECT_GRACE_MS" doc:"How long a node may be disconnected before its jobs are retried on others; those for which others have a free slot move at once."`
	Origins           []string `toml:"origins" env:"ORIGINS" doc:"Origins, besides the scheduler's own, whose pages may connect."`
}

// Nodes configures heartbeats and presence of nodes.
type Nodes struct {
	HeartbeatIntervalMS Millis  `toml:"heartbeat_interval_ms" env:"HEARTBEAT_INTERVAL_MS" doc:"Interval at which nodes are asked to send heartbeats."`
	PresenceTTLMS       Millis  `toml:"presence_ttl_ms" env:"PRESENCE_TTL_MS" doc:"A node that was not seen for this time is gone and its jobs are retried on others; also how long a lease lasts after its node was seen. A node is seen when it sends a heartbeat, or answers a ping on its WebSocket."`
	RetentionSeconds    Seconds `toml:"retention_seconds" env:"RETENTION_SECONDS" doc:"How long a node that is gone is still listed."`
}

// TaskBinding configures how jobs are bound to requests and nodes.
type TaskBinding struct {
	LeaseSeconds        Seconds `toml:"lease_seconds" env:"LEASE_SECONDS" doc:"How long the record of an ended job is kept, so that a repeated request gets the same answer."`
	ReservedTTLSeconds  Seconds `toml:"reserved_ttl_seconds" env:"RESERVED_TTL_SECONDS" doc:"The age at which a reservation that its node did not acknowledge is reconciled with the jobs that the node lists; its job is not sent after that."`
	SpreadEnabled       bool    `toml:"spread_enabled" env:"SPREAD_ENABLED" doc:"Whether a session's next job avoids the node of its last, on all instances. A job whose only other choice is a refusal is given to that node. The metric lingua_session_successions_total shows how often a job goes to the node of the job before."`
	SpreadWindowSeconds Seconds `toml:"spread_window_seconds" env:"SPREAD_WINDOW_SECONDS" doc:"How long it avoids that node."`
}

// Dispatch configures the selection of nodes and the timeouts of jobs.
type Dispatch struct {
	SampleK          int    `toml:"sample_k" env:"SAMPLE_K" doc:"How many candidates are sampled at random before all are considered."`
	ScanMax          int    `toml:"scan_max" env:"SCAN_MAX" doc:"Maximum number of candidates that are tried before a request is refused: in the eligible capability pools, and then in others."`
	DecideWithinMS   Millis `toml:"decide_within_ms" env:"DECIDE_WITHIN_MS" doc:"How long a dispatch may wait for the store before it is refused."`
	ACKTimeoutMS     Millis `toml:"ack_timeout_ms" env:"ACK_TIMEOUT_MS" doc:"How long a node may take to acknowledge a job before the job is retried on another."`
	AttemptTimeoutMS Millis `toml:"attempt_timeout_ms" env:"ATTEMPT_TIMEOUT_MS" doc:"How long one attempt may take."`
	JobTimeoutMS     Millis `toml:"job_timeout_ms" env:"JOB_TIMEOUT_MS" doc:"How long a job may take, with all its attempts."`
	MaxWaiting       int    `toml:"max_waiting" env:"MAX_WAITING" doc:"How many requests may wait for a slot at the same time, over all instances. Above it, tenants that have less than their part of them may still wait, up to twice as many."`
	MaxRetry         int    `toml:"max_retry" env:"MAX_RETRY" doc:"How often a failed job is retried on another node."`
	HeartbeatStaleMS Millis `toml:"heartbeat_stale_ms" env:"HEARTBEAT_STALE_MS" doc:"A node that was not seen for this time gets no new job. With less than half of presence_ttl_ms, nodes that send heartbeats more rarely than that get jobs only now and then."`
	CandidateShuffle bool   `toml:"candidate_shuffle" env:"CANDIDATE_SHUFFLE" doc:"Sample candidates at random. Without it the first suitable candidates are used, which only helps to debug."`
}

// ResourceLimits configures how busy the machine of a node may be.
type ResourceLimits struct {
	CPUMax    float64 `toml:"cpu_max" env:"CPU_MAX" doc:"A node that reports a higher fraction of its CPU in use gets no new job; one that reports none does."`
	GPUMax    float64 `toml:"gpu_max" env:"GPU_MAX" doc:"The same for its GPU."`
	MemoryMax float64 `toml:"memory_max" env:"MEMORY_MAX" doc:"The same for its memory."`
}

// OutlierEjection configures what happens to nodes that fail much more often than others.
type OutlierEjection struct {
	Enabled bool `toml:"enabled" env:"ENABLED" doc:"Whether a node that fails much more often than the other nodes of its directions gets no jobs for a while. Set the same on all instances."`
}

// Stats configures the statistics of the fleet, GET /api/v1/stats.
type Stats struct {
	IntervalSeconds Seconds `toml:"interval_seconds" env:"INTERVAL_SECONDS" doc:"How often one of the instances computes the statistics of the fleet for all: every 5 to 10 seconds. Set the same on all instances."`
	TTLSeconds      Seconds `toml:"ttl_seconds" env:"TTL_SECONDS" doc:"How long they stay in the store after they were computed: 30 to 60 seconds. An instance goes on answering with its last copy."`
}

// Observability configures warnings.
type Observability struct {
	LockWaitWarnMS Millis `toml:"lock_wait_warn_ms" env:"LOCK_WAIT_WARN_MS" doc:"A wait for a lock inside the scheduler that takes longer is counted as slow and logged, each lock once a second at most."`
	PathWarnMS     Millis `toml:"path_warn_ms" env:"PATH_WARN_MS" doc:"A request, or a step of an utterance through the scheduler, that takes longer is counted as slow and logged."`
}

// Default returns the configuration without a file, variables or flags.
func Default() Config {
	return Config{
		Server: Server{Host: "127.0.0.1", Port: 5010, BasePath: NoBasePath, PerAddress: 1024, ShutdownSeconds: 20, DrainDelayMS: 2000},
		Log:    Log{Level: "info", Format: "text"},
		Auth: Auth{OperatorKeys: []string{}, NodeTokens: []string{}, ClusterSecrets: []string{}, SessionGraceSeconds: 30,
			LoginSeconds: 43_200, AnonymousRole: auth.NoRole, AnonymousFrom: []string{}, AnonymousHosts: []string{}},
		Callback: Callback{
			AllowedTargets: []string{"127.0.0.0/8", "::1/128"},
		},
		Scheduler: Scheduler{
			Nodes:       Nodes{HeartbeatIntervalMS: 5000, PresenceTTLMS: 15_000, RetentionSeconds: 3600},
			TaskBinding: TaskBinding{LeaseSeconds: 300, ReservedTTLSeconds: 5, SpreadWindowSeconds: 30},
			Dispatch: Dispatch{
				SampleK: 20, ScanMax: 512, DecideWithinMS: 400, ACKTimeoutMS: 2000, AttemptTimeoutMS: 15_000, JobTimeoutMS: 30_000,
				MaxRetry: 2, MaxWaiting: 10_000, HeartbeatStaleMS: 15_000, CandidateShuffle: true,
			},
			ResourceLimits:    ResourceLimits{CPUMax: 0.95, GPUMax: 0.98, MemoryMax: 0.95},
			ModelNotAvailable: ModelNotAvailable{MarkTTLSeconds: 60, DebounceSeconds: 5, NodeRatePerMinute: 60, RateWindowSeconds: 60},
			ModelHub:          ModelHub{RefreshSeconds: 30, TimeoutMS: 3000},
			Segmentation:      Segmentation{PauseMS: 1000, MaxUtteranceMS: 60_000, SilenceLevel: 0.01},
			Sessions: Sessions{
				ResumeSeconds: 60, IdleSeconds: 300, WaitMS: 10_000, JoinWaitMS: 2000, AheadMS: 10_000, OpenUtterances: 16,
				UtteranceRate: 5, OutboxKB: 1024, AudioBufferMB: 256,
				PerAddress: 1000, DisconnectGraceMS: 5000, Origins: []string{},
			},
			OutlierEjection: OutlierEjection{Enabled: true},
			Stats:           Stats{IntervalSeconds: 5, TTLSeconds: 45},
			Observability:   Observability{LockWaitWarnMS: 10, PathWarnMS: 50},
			Tracing:         Tracing{SampleRatio: 0.1, TimeoutMS: 5000, TokenHeader: "Authorization"},
			Phase2: Phase2{InstanceID: "auto", HeartbeatTTLSeconds: 3, StreamBlockMS: 10_000, DLQTTLSeconds: 7 * 24 * 3600,
				Redis: Redis{ClusterURLs: []string{}, SentinelURLs: []string{}, KeyPrefix: "lingua"}},
			Phase3: Phase3{PoolMatchScope: string(core.ScopeCore), PoolCount: 16},
		},
	}
}
