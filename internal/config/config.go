// Package config is the scheduler's configuration: one struct, its defaults, and how a file, the environment
// and flags fill it. What it accepts is checked as a whole, so that no number makes another unreachable.
package config

import (
	"net"
	"strconv"
	"time"

	"github.com/lingua-scheduler/lingua/internal/auth"
)

// Millis is a duration in milliseconds, as the file gives it.
type Millis int64

// Duration converts it.
func (m Millis) Duration() time.Duration { return time.Duration(m) * time.Millisecond }

// Seconds is a duration in seconds, as the file gives it.
type Seconds int64

// Duration converts it.
func (s Seconds) Duration() time.Duration { return time.Duration(s) * time.Second }

// Config is the whole configuration. Every field has its default in Default and its meaning in its doc tag,
// from which the reference is made.
type Config struct {
	Store     string    `toml:"store" env:"STORE" doc:"Where the shared truth is kept. memory: in this process, for a scheduler that runs alone. redis://host:6379/0, rediss://, redis-sentinel://host:26379,…/master/0 or redis-cluster://host:6379,…: in Redis, for any number of them. Empty: memory, or what scheduler.phase2 says."`
	Server    Server    `toml:"server" envPrefix:"SERVER_"`
	Log       Log       `toml:"log" envPrefix:"LOG_"`
	Auth      Auth      `toml:"auth" envPrefix:"AUTH_"`
	Callback  Callback  `toml:"callback" envPrefix:"CALLBACK_"`
	Scheduler Scheduler `toml:"scheduler" envPrefix:"SCHEDULER_"`
}

// Server is where and how it listens.
type Server struct {
	Host            string  `toml:"host" env:"HOST" doc:"Address to listen on. Any other than loopback needs insecure, as long as there are no keys."`
	Port            int     `toml:"port" env:"PORT" doc:"Port to listen on; 0 takes a free one."`
	Insecure        bool    `toml:"insecure" env:"INSECURE" doc:"Listen on other addresses than loopback without keys. Whoever reaches the port then controls the fleet."`
	AdvertiseURL    string  `toml:"advertise_url" env:"ADVERTISE_URL" doc:"Where the other instances and all nodes reach this one, with nothing after the port: a node that is not connected here fetches sound here. Unless given it is the address it listens on or, if it listens on every one (0.0.0.0), that from which it reaches the first host of Redis."`
	PerAddress      int     `toml:"per_address" env:"PER_ADDRESS" doc:"How many connections one address may have that are not WebSockets, 0: as many as it likes. Behind a balancer all come from its address: set 0 and limit them there."`
	ShutdownSeconds Seconds `toml:"shutdown_seconds" env:"SHUTDOWN_SECONDS" doc:"How long jobs in flight may take to end when the scheduler is asked to stop."`
}

// Address is what to listen on.
func (s *Server) Address() string { return net.JoinHostPort(s.Host, strconv.Itoa(s.Port)) }

// Log is how it logs.
type Log struct {
	Level  string `toml:"level" env:"LEVEL" doc:"debug, info, warn or error."`
	Format string `toml:"format" env:"FORMAT" doc:"text for people, json for machines."`
}

// Auth is who may do what. Without operator keys everybody may do everything, and only this machine can reach it.
type Auth struct {
	OperatorKeys  []string `toml:"operator_keys" env:"OPERATOR_KEYS" doc:"Keys for everything, sent as Authorization: Bearer. At least 16 characters each."`
	NodeTokens    []string `toml:"node_tokens" env:"NODE_TOKENS" doc:"Tokens for nodes, each with the names it is for: gpu-*=token, or gpu-*@tenant=token for a tenant's own nodes."`
	SessionSecret string   `toml:"session_secret" env:"SESSION_SECRET" doc:"Signs the tokens that POST /v1/sessions mints; the same for every instance. At least 32 characters."`
}

// Keys makes what checks credentials.
func (a *Auth) Keys() (*auth.Keys, error) {
	return auth.New(auth.Config{OperatorKeys: a.OperatorKeys, NodeTokens: a.NodeTokens, Secret: a.SessionSecret})
}

// Callback is how HTTP nodes are called.
type Callback struct {
	AllowedTargets []string `toml:"allowed_targets" env:"ALLOWED_TARGETS" doc:"Networks in which a node's callback_url may be, as CIDR prefixes."`
	Secret         string   `toml:"secret" env:"SECRET" doc:"Signs what is sent to callback_url, in the header X-Lingua-Signature. Empty: nothing is signed."`
}

// Scheduler is how jobs and nodes are treated.
type Scheduler struct {
	Nodes             Nodes             `toml:"nodes" envPrefix:"NODES_"`
	TaskBinding       TaskBinding       `toml:"task_binding" envPrefix:"TASK_BINDING_"`
	Dispatch          Dispatch          `toml:"dispatch" envPrefix:"DISPATCH_"`
	ResourceLimits    ResourceLimits    `toml:"resource_limits" envPrefix:"RESOURCE_LIMITS_"`
	ModelNotAvailable ModelNotAvailable `toml:"model_not_available" envPrefix:"MODEL_NOT_AVAILABLE_"`
	Segmentation      Segmentation      `toml:"web_task_segmentation" envPrefix:"WEB_TASK_SEGMENTATION_"`
	Sessions          Sessions          `toml:"sessions" envPrefix:"SESSIONS_"`
	Observability     Observability     `toml:"observability" envPrefix:"OBSERVABILITY_"`
	Phase2            Phase2            `toml:"phase2" envPrefix:"PHASE2_"`
}

// Segmentation is where an utterance ends, unless its session says otherwise.
type Segmentation struct {
	PauseMS        Millis  `toml:"pause_ms" env:"PAUSE_MS" doc:"After so long without audio, or of silence."`
	MaxUtteranceMS Millis  `toml:"max_utterance_ms" env:"MAX_UTTERANCE_MS" doc:"After so much audio."`
	SilenceLevel   float64 `toml:"silence_level" env:"SILENCE_LEVEL" doc:"PCM quieter than this is silence; the loudest possible is 1, 0 takes nothing for silence."`
}

// Sessions is how conversations are treated.
type Sessions struct {
	ResumeSeconds     Seconds  `toml:"resume_seconds" env:"RESUME_SECONDS" doc:"How long after a lost connection a session can go on."`
	IdleSeconds       Seconds  `toml:"idle_seconds" env:"IDLE_SECONDS" doc:"A session that says nothing for so long is closed."`
	WaitMS            Millis   `toml:"wait_ms" env:"WAIT_MS" doc:"How long an utterance waits for a node with room before it ends with an error."`
	JoinWaitMS        Millis   `toml:"join_wait_ms" env:"JOIN_WAIT_MS" doc:"How long it waits if no registered node could ever serve it: one may be just joining."`
	AheadMS           Millis   `toml:"ahead_ms" env:"AHEAD_MS" doc:"How far audio may run ahead of real time."`
	OpenUtterances    int      `toml:"open_utterances" env:"OPEN_UTTERANCES" doc:"How many utterances of a session may wait for their results at once."`
	OutboxKB          int      `toml:"outbox_kb" env:"OUTBOX_KB" doc:"How many KiB of results a session may have that its client has not acknowledged; beyond that the oldest are dropped, and a resume says so."`
	AudioBufferMB     int      `toml:"audio_buffer_mb" env:"AUDIO_BUFFER_MB" doc:"How much audio of all sessions this instance holds."`
	PerAddress        int      `toml:"per_address" env:"PER_ADDRESS" doc:"How many connections one address may have, 0: as many as it likes."`
	DisconnectGraceMS Millis   `toml:"disconnect_grace_ms" env:"DISCONNECT_GRACE_MS" doc:"How long a node that lost its connection has to come back before its jobs are given to others."`
	Origins           []string `toml:"origins" env:"ORIGINS" doc:"Sites, besides the scheduler's own, whose pages may connect."`
}

// Nodes is how nodes are watched.
type Nodes struct {
	HeartbeatIntervalMS Millis  `toml:"heartbeat_interval_ms" env:"HEARTBEAT_INTERVAL_MS" doc:"How often nodes are asked to send a heartbeat."`
	PresenceTTLMS       Millis  `toml:"presence_ttl_ms" env:"PRESENCE_TTL_MS" doc:"A node silent for this long is gone and its jobs are moved; also how long a lease lasts without news of its node."`
	RetentionSeconds    Seconds `toml:"retention_seconds" env:"RETENTION_SECONDS" doc:"How long a node that is gone is still listed."`
}

// TaskBinding is how jobs are bound to requests and nodes.
type TaskBinding struct {
	LeaseSeconds        Seconds `toml:"lease_seconds" env:"LEASE_SECONDS" doc:"How long the record of an ended job is kept, so that a repeated request gets the same answer."`
	ReservedTTLSeconds  Seconds `toml:"reserved_ttl_seconds" env:"RESERVED_TTL_SECONDS" doc:"The age at which a reservation that its node never confirmed is judged by what the node says; its job is not sent any more then."`
	SpreadEnabled       bool    `toml:"spread_enabled" env:"SPREAD_ENABLED" doc:"Whether a session's next utterance avoids the node of its last."`
	SpreadWindowSeconds Seconds `toml:"spread_window_seconds" env:"SPREAD_WINDOW_SECONDS" doc:"For how long it does."`
}

// Dispatch is how a node is found and how long things may take.
type Dispatch struct {
	SampleK          int    `toml:"sample_k" env:"SAMPLE_K" doc:"How many nodes are drawn at random before the search widens."`
	ScanMax          int    `toml:"scan_max" env:"SCAN_MAX" doc:"How many nodes are asked before a request is refused."`
	DecideWithinMS   Millis `toml:"decide_within_ms" env:"DECIDE_WITHIN_MS" doc:"How long a dispatch may wait for the store before it is refused."`
	ACKTimeoutMS     Millis `toml:"ack_timeout_ms" env:"ACK_TIMEOUT_MS" doc:"How long a node may take to confirm a job before it is given to another."`
	AttemptTimeoutMS Millis `toml:"attempt_timeout_ms" env:"ATTEMPT_TIMEOUT_MS" doc:"How long one attempt may take."`
	JobTimeoutMS     Millis `toml:"job_timeout_ms" env:"JOB_TIMEOUT_MS" doc:"How long a job may take, with all its attempts."`
	MaxRetry         int    `toml:"max_retry" env:"MAX_RETRY" doc:"How often a failed job is given to another node."`
	HeartbeatStaleMS Millis `toml:"heartbeat_stale_ms" env:"HEARTBEAT_STALE_MS" doc:"A node whose last heartbeat is older gets no new job."`
	CandidateShuffle bool   `toml:"candidate_shuffle" env:"CANDIDATE_SHUFFLE" doc:"Draw nodes at random. Without it the first that fit are taken, which is only good for looking for a fault."`
}

// ResourceLimits is how busy a node's machine may be.
type ResourceLimits struct {
	CPUMax    float64 `toml:"cpu_max" env:"CPU_MAX" doc:"A node that reports more than this part of its CPU in use gets no new job; one that reports nothing does."`
	GPUMax    float64 `toml:"gpu_max" env:"GPU_MAX" doc:"The same for its GPU."`
	MemoryMax float64 `toml:"memory_max" env:"MEMORY_MAX" doc:"The same for its memory."`
}

// ModelNotAvailable is how a node's word is taken that a service is missing after all.
type ModelNotAvailable struct {
	MarkTTLSeconds    Seconds `toml:"mark_ttl_seconds" env:"MARK_TTL_SECONDS" doc:"For how long the service then counts as not ready on that node."`
	NodeRatePerMinute int     `toml:"node_rate_per_minute" env:"NODE_RATE_PER_MINUTE" doc:"How many such reports a node may send a minute."`
}

// Observability is what is worth a warning.
type Observability struct {
	PathWarnMS Millis `toml:"path_warn_ms" env:"PATH_WARN_MS" doc:"A request that takes longer is counted as slow and logged."`
}

// Default is the configuration of a scheduler that was told nothing.
func Default() Config {
	return Config{
		Server: Server{Host: "127.0.0.1", Port: 5010, PerAddress: 1024, ShutdownSeconds: 20},
		Log:    Log{Level: "info", Format: "text"},
		Auth:   Auth{OperatorKeys: []string{}, NodeTokens: []string{}},
		Callback: Callback{
			AllowedTargets: []string{"127.0.0.0/8", "::1/128"},
		},
		Scheduler: Scheduler{
			Nodes:       Nodes{HeartbeatIntervalMS: 5000, PresenceTTLMS: 15_000, RetentionSeconds: 3600},
			TaskBinding: TaskBinding{LeaseSeconds: 300, ReservedTTLSeconds: 5, SpreadWindowSeconds: 30},
			Dispatch: Dispatch{
				SampleK: 20, ScanMax: 512, DecideWithinMS: 400, ACKTimeoutMS: 2000, AttemptTimeoutMS: 15_000, JobTimeoutMS: 30_000,
				MaxRetry: 2, HeartbeatStaleMS: 15_000, CandidateShuffle: true,
			},
			ResourceLimits:    ResourceLimits{CPUMax: 0.95, GPUMax: 0.98, MemoryMax: 0.95},
			ModelNotAvailable: ModelNotAvailable{MarkTTLSeconds: 60, NodeRatePerMinute: 60},
			Segmentation:      Segmentation{PauseMS: 1000, MaxUtteranceMS: 60_000, SilenceLevel: 0.01},
			Sessions: Sessions{
				ResumeSeconds: 60, IdleSeconds: 300, WaitMS: 10_000, JoinWaitMS: 2000, AheadMS: 10_000, OpenUtterances: 16, OutboxKB: 1024, AudioBufferMB: 256,
				PerAddress: 1000, DisconnectGraceMS: 5000, Origins: []string{},
			},
			Observability: Observability{PathWarnMS: 50},
			Phase2:        Phase2{InstanceID: "auto", HeartbeatTTLSeconds: 3, StreamBlockMS: 1000, DLQTTLSeconds: 7 * 24 * 3600, Redis: Redis{ClusterURLs: []string{}, SentinelURLs: []string{}, KeyPrefix: "lingua"}},
		},
	}
}
