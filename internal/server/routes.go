package server

import (
	"net/http"
	"reflect"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/wire"
)

// route is one door: how it is reached, what it takes and gives, and who answers. The same table mounts the
// handlers and describes them in /openapi.yaml, so that the two cannot differ.
type route struct {
	method, path string
	tag          string
	summary      string
	about        string
	handler      http.HandlerFunc
	in, out      reflect.Type
	media        string // of the answer, when it is not JSON
	params       []param
	codes        []wire.Code // what can go wrong, beyond what always can
	alsoStatus   int         // a further status with the same body
	upgrade      bool        // the answer is another protocol
	who          who         // may ask
}

type param struct {
	name, about string
	kind        string // string or integer
	inPath      bool
}

func idParam(about string) param {
	return param{name: "id", about: about, kind: "string", inPath: true}
}

func (s *Server) routes() []route {
	body := reflect.TypeFor[wire.DispatchRequest]
	return []route{
		{
			method: "POST", path: "/v1/node/register", who: nodesToo, tag: "nodes", summary: "Register a node",
			about:   "Begins a new life of the node. Jobs it lists as active stay its own; all others it had are given to other nodes.",
			handler: post(s, s.register), in: reflect.TypeFor[wire.RegisterRequest](), out: reflect.TypeFor[wire.RegisterResponse](),
			codes: []wire.Code{wire.SchedulerDependencyDown},
		},
		{
			method: "POST", path: "/v1/node/heartbeat", who: nodesToo, tag: "nodes", summary: "Say that a node is alive",
			about:   "Renews the node's presence and its leases, and takes over what it says of itself. The answer names the jobs it should stop. A heartbeat with all that a registration needs registers a node that is not known.",
			handler: post(s, s.heartbeat), in: reflect.TypeFor[wire.HeartbeatRequest](), out: reflect.TypeFor[wire.HeartbeatResponse](),
			codes: []wire.Code{wire.NotFound, wire.StaleEpoch, wire.SchedulerDependencyDown},
		},
		{
			method: "POST", path: "/v1/node/model_not_available", who: nodesToo, tag: "nodes", summary: "Say that a service is missing after all",
			about:   "For a while the node gets no job that requires the service. The job that failed for it, if one is named, is given to another node.",
			handler: post(s, s.modelNotAvailable), in: reflect.TypeFor[wire.ModelNotAvailableRequest](), out: reflect.TypeFor[wire.OKResponse](),
			codes: []wire.Code{wire.NotFound, wire.StaleAttempt, wire.NotHolder, wire.RateLimited, wire.SchedulerDependencyDown},
		},
		{
			method: "GET", path: "/v1/nodes", tag: "nodes", summary: "List the nodes, in the order of their names", handler: get(s, s.nodes),
			out: reflect.TypeFor[wire.NodeList](), codes: []wire.Code{wire.SchedulerDependencyDown},
			params: append([]param{
				{name: "state", about: "Only nodes in this state: ready, degraded, draining, offline or silent.", kind: "string"},
				{name: "language", about: "Only nodes that have this language, for whatever step.", kind: "string"},
				{name: "region", about: "Only nodes of this region.", kind: "string"},
			}, pageParams("1000")...),
		},
		{
			method: "GET", path: "/v1/nodes/{id}", tag: "nodes", summary: "Show a node", handler: get(s, s.node),
			out: reflect.TypeFor[wire.Node](), params: []param{idParam("The node's name.")},
			codes: []wire.Code{wire.NotFound, wire.SchedulerDependencyDown},
		},
		{
			method: "POST", path: "/v1/nodes/{id}/drain", tag: "nodes", summary: "Give a node nothing new",
			about: "It keeps what it has. The wish outlives the node's registrations.", handler: get(s, s.drain(true)),
			out: reflect.TypeFor[wire.Node](), params: []param{idParam("The node's name.")},
			codes: []wire.Code{wire.NotFound, wire.SchedulerDependencyDown},
		},
		{
			method: "POST", path: "/v1/nodes/{id}/resume", tag: "nodes", summary: "Take a drain back", handler: get(s, s.drain(false)),
			out: reflect.TypeFor[wire.Node](), params: []param{idParam("The node's name.")},
			codes: []wire.Code{wire.NotFound, wire.SchedulerDependencyDown},
		},
		{
			method: "POST", path: "/v1/dispatch/f2f", tag: "dispatch", summary: "Give an utterance to a node",
			about:   "Reserves a slot on a random capable node, delivers the job and answers. The same request_id gives the same job, however often it is sent.",
			handler: post(s, s.dispatch), in: body(), out: reflect.TypeFor[wire.DispatchResponse](),
			codes: []wire.Code{
				wire.NoCapableNode, wire.AllCandidatesFullOrFailed, wire.PreferredNodeNotCapable, wire.RequestMismatch,
				wire.SchedulerDependencyDown, wire.DeadlineExceeded,
			},
		},
		{
			method: "POST", path: "/v1/dispatch/explain", tag: "dispatch", summary: "Ask what would become of a dispatch",
			about:   "Takes the same body and says, node by node, what speaks against it. Nothing is reserved.",
			handler: post(s, s.explain), in: body(), out: reflect.TypeFor[wire.ExplainResponse](),
			codes: []wire.Code{wire.SchedulerDependencyDown},
		},
		{
			method: "POST", path: "/v1/job/ack", who: nodesToo, tag: "jobs", summary: "Confirm a job", handler: post(s, s.ack),
			in: reflect.TypeFor[wire.JobAckRequest](), out: reflect.TypeFor[wire.OKResponse](), codes: reportCodes,
		},
		{
			method: "POST", path: "/v1/job/done", who: nodesToo, tag: "jobs", summary: "Deliver a result",
			about: "Repeat it if the answer is 503 or does not come: a repeated result is accepted once.", handler: post(s, s.done),
			in: reflect.TypeFor[wire.JobDoneRequest](), out: reflect.TypeFor[wire.OKResponse](), codes: reportCodes,
		},
		{
			method: "POST", path: "/v1/job/fail", who: nodesToo, tag: "jobs", summary: "Give a job up", handler: post(s, s.jobFail),
			in: reflect.TypeFor[wire.JobFailRequest](), out: reflect.TypeFor[wire.OKResponse](), codes: reportCodes,
		},
		{
			method: "GET", path: "/v1/jobs", tag: "jobs", summary: "List jobs, the newest first", handler: get(s, s.jobs),
			out: reflect.TypeFor[wire.JobList](),
			params: append([]param{
				{name: "state", about: "Only jobs in this state.", kind: "string"},
				{name: "node_id", about: "Only jobs of this node.", kind: "string"},
				{name: "session_id", about: "Only jobs of this session.", kind: "string"},
				{name: "language", about: "Only jobs in which this language is spoken or wanted.", kind: "string"},
				{name: "region", about: "Only jobs that asked for this region.", kind: "string"},
				{name: "scope", about: "here: only what this scheduler knows. Else the others are asked which jobs ended with them, too.", kind: "string"},
			}, pageParams("100")...),
			codes: []wire.Code{wire.SchedulerDependencyDown},
		},
		{
			method: "GET", path: "/v1/jobs/{id}", tag: "jobs", summary: "Show a job and its attempts", handler: get(s, s.job),
			out: reflect.TypeFor[wire.Job](), params: []param{idParam("The job's id.")},
			codes: []wire.Code{wire.NotFound, wire.SchedulerDependencyDown},
		},
		{
			method: "POST", path: "/v1/jobs/{id}/cancel", tag: "jobs", summary: "Cancel a job", handler: get(s, s.cancel),
			out: reflect.TypeFor[wire.CancelResponse](), params: []param{idParam("The job's id.")},
			codes: []wire.Code{wire.NotFound, wire.SchedulerDependencyDown},
		},
		{
			method: "GET", path: "/v1/pools", tag: "dispatch", summary: "List the directions and how well each is served",
			handler: get(s, s.pools), out: reflect.TypeFor[wire.PoolList](), codes: []wire.Code{wire.SchedulerDependencyDown},
			params: append([]param{
				{name: "language", about: "Only directions from or to this language.", kind: "string"},
				{name: "region", about: "Count only nodes of this region.", kind: "string"},
				{name: "node_id", about: "Count only this node.", kind: "string"},
			}, pageParams("1000")...),
		},
		{
			method: "GET", path: "/v1/instances", tag: "instances", summary: "List the schedulers that share the fleet",
			about:   "Also those that are gone and have left something behind.",
			handler: get(s, s.instances), out: reflect.TypeFor[wire.InstanceList](), codes: []wire.Code{wire.InvalidRequest, wire.SchedulerDependencyDown},
		},
		{
			method: "GET", path: "/v1/dlq", tag: "instances", summary: "List dead letters, or show one",
			about:   "What one scheduler had to tell another and nobody could make use of. What a letter says is shown when it is asked for by its id.",
			handler: get(s, s.deadLetters), out: reflect.TypeFor[wire.DeadLetterList](),
			params: []param{
				{name: "id", about: "Only this one, with what it says.", kind: "string"},
				{name: "limit", about: "At most this many, 100 unless given.", kind: "integer"},
			},
			codes: []wire.Code{wire.NotFound, wire.SchedulerDependencyDown},
		},
		{
			method: "POST", path: "/v1/dlq/replay", tag: "instances", summary: "Try dead letters once more",
			about:   "Each is put into the inbox of the scheduler that is asked, as old as it is. One that nobody needs any more stays where it is.",
			handler: post(s, s.eachLetter((*bus.Bus).Replay)), in: reflect.TypeFor[wire.DeadLettersRequest](), out: reflect.TypeFor[wire.DeadLettersResponse](),
			codes: []wire.Code{wire.SchedulerDependencyDown},
		},
		{
			method: "POST", path: "/v1/dlq/purge", tag: "instances", summary: "Drop dead letters",
			handler: post(s, s.eachLetter((*bus.Bus).Purge)), in: reflect.TypeFor[wire.DeadLettersRequest](), out: reflect.TypeFor[wire.DeadLettersResponse](),
			codes: []wire.Code{wire.SchedulerDependencyDown},
		},
		{
			method: "POST", path: "/v1/sessions", tag: "sockets", summary: "Mint a token for a session",
			about:   "The token is for one session and for a while: give it to whoever speaks, and keep the key. A browser names it as a second subprotocol, lingua.token.<token>.",
			handler: post(s, s.mint), in: reflect.TypeFor[wire.SessionTokenRequest](), out: reflect.TypeFor[wire.SessionTokenResponse](),
			codes: []wire.Code{wire.NotFound},
		},
		{
			method: "GET", path: "/v1/audio/{id}", who: anybody, tag: "sockets", summary: "Fetch the sound of a session's job",
			about: "For nodes that are not connected; the address, with its token, comes with the job and is good for one attempt. " +
				"Content-Type and X-Lingua-Audio say what it is: audio/pcm, audio/wav, or audio/ogg with the packets of Opus.",
			handler: s.audio, media: "audio/*", params: []param{idParam("The job's id."), {name: "token", about: "As it came with the job.", kind: "string"}},
			codes: []wire.Code{wire.Unauthorized, wire.NotFound},
		},
		{
			method: "PUT", path: "/v1/audio/{id}/tts", who: anybody, tag: "sockets", summary: "Bring the spoken result of a session's job",
			about: "Before the result itself. The address comes with the job. X-Lingua-Audio names its format (\"pcm_s16le; rate=24000; channels=1\"), " +
				"or Content-Type does (audio/pcm, audio/wav, audio/ogg with Opus); without either it is pcm_s16le, 16000, 1.",
			handler: s.speech, out: reflect.TypeFor[wire.OKResponse](), params: []param{idParam("The job's id."), {name: "token", about: "As it came with the job.", kind: "string"}},
			codes: []wire.Code{wire.Unauthorized, wire.NotFound, wire.PayloadTooLarge, wire.UnsupportedMediaType},
		},
		{
			method: "GET", path: "/ws/node", who: anybody, tag: "sockets", summary: "Connect a node (WebSocket, subprotocol lingua.v1)",
			about: "Described in api/asyncapi.yaml and docs/sockets.md.", handler: s.nodeSocket, media: "application/octet-stream", upgrade: true,
		},
		{
			method: "GET", path: "/ws/session", who: anybody, tag: "sockets", summary: "Speak into a session (WebSocket, subprotocol lingua.v1)",
			about: "Described in api/asyncapi.yaml and docs/sockets.md.", handler: s.sessionSocket, media: "application/octet-stream", upgrade: true,
		},
		{
			method: "GET", path: "/v1/version", who: anybody, tag: "operations", summary: "Say which version runs", handler: get(s, s.version),
			out: reflect.TypeFor[wire.VersionResponse](),
		},
		{
			method: "GET", path: "/healthz", who: anybody, tag: "operations", summary: "Say whether the process is alive", handler: get(s, s.health),
			out: reflect.TypeFor[wire.HealthResponse](),
		},
		{
			method: "GET", path: "/readyz", who: anybody, tag: "operations", summary: "Say whether new work should come here", handler: s.ready,
			out: reflect.TypeFor[wire.ReadyResponse](), alsoStatus: http.StatusServiceUnavailable,
		},
		{
			method: "GET", path: "/metrics", tag: "operations", summary: "Metrics for Prometheus", media: "text/plain",
			handler: promhttp.HandlerFor(s.Metrics.Registry, promhttp.HandlerOpts{}).ServeHTTP,
		},
		{
			method: "GET", path: "/openapi.yaml", who: anybody, tag: "operations", summary: "This description", media: "application/yaml",
			handler: s.spec31,
		},
		{
			method: "GET", path: "/asyncapi.yaml", who: anybody, tag: "operations", summary: "The description of the sockets", media: "application/yaml",
			handler: s.socketSpec,
		},
	}
}

// reportCodes is what can be wrong with a node's word about a job.
var reportCodes = []wire.Code{wire.NotFound, wire.StaleAttempt, wire.StaleEpoch, wire.NotHolder, wire.SchedulerDependencyDown}
