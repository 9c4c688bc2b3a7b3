package server

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/internal/compat"
	"github.com/lingua-scheduler/lingua/internal/convert"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/internal/stats"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// jobHandlers handle dispatches, the reports of nodes about jobs, and the requests of operators about jobs.
type jobHandlers struct {
	responder
	dispatcher *dispatch.Dispatcher
	registry   *nodes.Registry
	verifier   *nodes.Verifier
	sessions   *session.Registry
	read       *convert.Reader
	audio      *audio.Buffer
	urls       audio.URLs
	ring       *stats.JobRing // what this instance remembers
	peers      *peerLists
	bulk       *bulkGate
}

func (h *jobHandlers) routes() []route {
	return append(h.audioRoutes(), []route{
		h.waitingRoute(), h.cancelManyRoute(),
		{
			method: "POST", path: "/v1/dispatch/f2f", rule: jobSenders, tag: "dispatch", summary: "Dispatch an utterance to a node",
			description: "Reserves a slot on a random capable node, delivers the job and answers. A repeated request_id gives the same " +
				"job. With options.max_wait_ms it waits for a slot if every capable node is full; the wait ends when the client " +
				"disconnects. If the scheduler traces, the trace of the job links to the span in the header traceparent.",
			handler: described[wire.DispatchRequest](handleBody(h.responder, h.dispatch)),
			codes: []wire.Code{
				wire.NoCapableNode, wire.AllCandidatesFullOrFailed, wire.CannotBeMet, wire.QueueFull, wire.PreferredNodeNotCapable,
				wire.RequestMismatch, wire.RateLimited,
				wire.SchedulerDependencyDown, wire.DeadlineExceeded, wire.Cancelled,
			},
		},
		{
			method: "POST", path: "/v1/job/ack", rule: nodesOnly, tag: "jobs", summary: "Acknowledge a job",
			handler: handleBody(h.responder, h.ack), codes: reportCodes,
		},
		{
			method: "POST", path: "/v1/job/done", rule: nodesOnly, tag: "jobs", summary: "Deliver a result",
			description: "Repeat it if the answer is 503 or does not come: a repeated result is accepted once.",
			handler:     handleBody(h.responder, h.done), codes: reportCodes,
		},
		{
			method: "POST", path: "/v1/job/fail", rule: nodesOnly, tag: "jobs", summary: "Report that a job failed",
			handler: handleBody(h.responder, h.fail), codes: reportCodes,
		},
		{
			method: "GET", path: "/v1/jobs", rule: jobReaders, peers: true, tag: "jobs", summary: "List jobs, the newest first",
			handler: handle(h.responder, h.list),
			description: "Jobs that have not ended, and of the ended ones those that are kept, or that one of the instances remembers " +
				"among its last 20,000. An instance that does not answer within 2 s is named as incomplete.",
			params: listParams("100",
				param{name: "state", description: "Only jobs in this state. open: those that have not ended, in whatever state; ended: " +
					"the others.", kind: "string"},
				param{name: "reason", description: "Only jobs that ended, or of which an attempt ended, for this reason.", kind: "string"},
				param{name: "end_reason", description: "Only jobs that ended for this reason, whatever their attempts ended for.",
					kind: "string"},
				param{name: "node_id", description: "Only jobs that this node has or had.", kind: "string"},
				param{name: "session_id", description: "Only jobs of this session.", kind: "string"},
				param{name: "language", description: "Only jobs from or to this language.", kind: "string"},
				param{name: "src_lang", description: "Only jobs from this language.", kind: "string"},
				param{name: "tgt_lang", description: "Only jobs to this language.", kind: "string"},
				param{name: "region", description: "Only jobs that asked for this region.", kind: "string"},
				param{name: "tenant_id", description: "Only jobs of this tenant.", kind: "string"},
				param{name: "search", description: "Only jobs whose ids contain this.", kind: "string"},
				param{name: "since", description: "Only jobs that were created then or later, in Unix milliseconds.", kind: "integer"},
				param{name: "until", description: "Only jobs that were created before, in Unix milliseconds.", kind: "integer"},
				param{name: textParam, description: "false: without what was said. By default programs that send a key get it, and " +
					"pages do not: they ask for single jobs.", kind: "string"},
				param{name: "scope", description: "here: only the jobs that this instance knows. By default the other instances are " +
					"asked, too, which jobs ended there.", kind: "string"},
			),
			codes: []wire.Code{wire.SchedulerDependencyDown},
		},
		{
			method: "GET", path: "/v1/jobs/{id}", rule: jobReaders, programs: true, tag: "jobs", summary: "Show a job and its attempts",
			handler: handle(h.responder, h.get),
			params: []param{
				idParam("The job's id."),
				{name: "decisions", description: "true: with how nodes were chosen for it, as far as instances remember.", kind: "string"},
				describeText(actionReadText),
			},
			codes: []wire.Code{wire.NotFound, wire.SchedulerDependencyDown},
		},
		{
			method: "GET", path: "/v1/jobs/{id}/decisions", rule: jobReaders, peers: true, tag: "jobs",
			summary:     "Show how nodes were chosen for a job",
			description: "The nodes that were drawn for each attempt, and why each was not chosen, as far as instances remember.",
			handler:     handle(h.responder, h.decisions),
			params: []param{
				idParam("The job's id."),
				{name: "scope", description: "here: only what this instance remembers. By default the other instances are asked, too.",
					kind: "string"},
			},
			codes: []wire.Code{wire.NotFound, wire.SchedulerDependencyDown},
		},
		{
			method: "POST", path: "/v1/jobs/{id}/cancel", rule: jobOwners, action: "job.cancel", tag: "jobs",
			summary: "Cancel a job, or a request that waits for a slot", handler: handle(h.responder, h.cancel),
			params: []param{idParam("The job's id.")},
			codes:  []wire.Code{wire.NotFound, wire.SchedulerDependencyDown},
		},
	}...)
}

// reportCodes are the errors of a node's report about a job.
var reportCodes = []wire.Code{wire.NotFound, wire.StaleAttempt, wire.StaleEpoch, wire.NotHolder, wire.SchedulerDependencyDown}

func (h *jobHandlers) dispatch(ctx context.Context, given *compat.DispatchRequest) (*wire.DispatchResponse, error) {
	in := given.Translate()
	spec, e := h.read.Spec(in)
	if e != nil {
		return nil, e
	}
	if spec.Tenant, e = tenantOf(ctx, in.TenantID); e != nil {
		return nil, e
	}
	r := dispatch.Request{Spec: spec, Traceparent: callOf(ctx).traceparent}
	if r.Request == "" {
		r.Request, r.Unique = newRequestID(), true
	}
	if wait := spec.Options.MaxWaitMS; wait != nil && *wait != 0 {
		now := time.Now()
		callOf(ctx).waits = true
		r.Wait = &dispatch.Wait{Since: now, Until: now.Add(time.Duration(*wait) * time.Millisecond), Join: now}
	}
	p, err := h.dispatcher.Dispatch(ctx, r)
	if err != nil {
		if e := (*wire.Error)(nil); errors.As(err, &e) && e.Code == wire.RateLimited {
			callOf(ctx).reason = limitTenant
		}
		return nil, err
	}
	return &wire.DispatchResponse{JobID: string(p.Job), NodeID: string(p.Node), AttemptID: p.Attempt}, nil
}

// newRequestID makes a request id for a caller that gave none. It comes from the runtime's generator, which cannot be predicted from
// its output.
func newRequestID() core.RequestID {
	var random [16]byte
	binary.NativeEndian.PutUint64(random[:8], rand.Uint64())
	binary.NativeEndian.PutUint64(random[8:], rand.Uint64())
	var id [4 + 2*len(random)]byte
	return core.RequestID(hex.AppendEncode(append(id[:0], "req-"...), random[:]))
}

// parseReport checks which attempt a node reports about, and that the caller is the node.
func (h *jobHandlers) parseReport(ctx context.Context, in *wire.JobAckRequest) (dispatch.Report, error) {
	var r dispatch.Report
	if e := convert.CheckID("job_id", in.JobID); e != nil {
		return r, e
	}
	if e := convert.CheckID("node_id", in.NodeID); e != nil {
		return r, e
	}
	if e := checkNode(ctx, core.NodeID(in.NodeID)); e != nil {
		return r, e
	}
	if e := h.registry.CheckName(core.NodeID(in.NodeID)); e != nil {
		return r, e
	}
	if e := convert.CheckAttempt("attempt_id", in.AttemptID); e != nil {
		return r, e
	}
	epoch, e := optionalEpoch(in.Epoch)
	if e != nil {
		return r, e
	}
	epoch, err := h.verifier.CheckReport(ctx, core.NodeID(in.NodeID), proofOf(ctx, in.NodeToken, epoch))
	if err != nil {
		return r, err
	}
	return dispatch.Report{
		Job:    core.JobID(in.JobID),
		Holder: core.Holder{Attempt: in.AttemptID, Node: core.NodeID(in.NodeID), Epoch: epoch},
		Tenant: principalOf(ctx).Tenant,
	}, nil
}

func (h *jobHandlers) ack(ctx context.Context, in *wire.JobAckRequest) (*wire.OKResponse, error) {
	r, err := h.parseReport(ctx, in)
	if err != nil {
		return nil, err
	}
	if err := h.dispatcher.Reports.Ack(ctx, r); err != nil {
		return nil, err
	}
	return &wire.OKResponse{OK: true}, nil
}

func (h *jobHandlers) done(ctx context.Context, in *wire.JobDoneRequest) (*wire.OKResponse, error) {
	r, err := h.parseReport(ctx, &in.JobAckRequest)
	if err != nil {
		return nil, err
	}
	if in.Status != "" && in.Status != "ok" {
		return h.reportFailure(ctx, r, in.Reason)
	}
	if e := convert.CheckResult(in.Result); e != nil {
		return nil, e
	}
	if err := h.dispatcher.Reports.Done(ctx, r, in.Result); err != nil {
		return nil, err
	}
	return &wire.OKResponse{OK: true}, nil
}

func (h *jobHandlers) fail(ctx context.Context, in *wire.JobFailRequest) (*wire.OKResponse, error) {
	r, err := h.parseReport(ctx, &in.JobAckRequest)
	if err != nil {
		return nil, err
	}
	return h.reportFailure(ctx, r, in.Reason)
}

func (h *jobHandlers) reportFailure(ctx context.Context, r dispatch.Report, nodeReason string) (*wire.OKResponse, error) {
	reason, detail := convert.FailureReason(nodeReason)
	if err := h.dispatcher.Reports.Fail(ctx, r, reason, detail); err != nil {
		return nil, err
	}
	return &wire.OKResponse{OK: true}, nil
}

// defaultJobPage is the number of jobs on a page if the request names none.
const defaultJobPage = 100

// list lists jobs, the newest first. Jobs that have not ended are found by the leases of all nodes, or of the requested one: there is
// no index of jobs, because it would cost a write for each.
func (h *jobHandlers) list(r *http.Request) (*wire.JobList, error) {
	q, e := parseList(r.URL.Query(), "jobs", 2, defaultJobPage,
		"state", "reason", "end_reason", "node_id", "session_id", "language", "src_lang", "tgt_lang", "region", "tenant_id", "search",
		"since", "until", textParam, "scope")
	if e != nil {
		return nil, e
	}
	p, e := h.jobFilter(&q)
	if e != nil {
		return nil, e
	}
	if q.Get(textParam) == "true" {
		return nil, wire.Invalid(textParam, "must be false, or absent: what was said is shown for one job at a time")
	}
	if e := readText(r.Context(), q.Values, ""); e != nil {
		return nil, e
	}
	if p.Tenant = visibleTenant(r.Context()); q.Get("tenant_id") != "" {
		tenant, e := tenantOf(r.Context(), q.Get("tenant_id"))
		if e != nil {
			return nil, e
		}
		p.Tenant = &tenant
	}
	jobs, err := h.find(r.Context(), p)
	if err != nil {
		return nil, err
	}
	out := &wire.JobList{Jobs: make([]wire.Job, len(jobs)), SinceMS: h.ring.Since().UnixMilli()}
	for i := range jobs {
		out.Jobs[i] = viewJob(r.Context(), jobs[i])
	}
	more := false
	if q.Get("scope") != scopeHere && p.Phase != store.PhaseOpen { // the store has all jobs that have not ended
		more = h.addFromPeers(out, r)
	}
	if more = more || len(out.Jobs) > q.limit; more && len(out.Jobs) > 0 {
		out.Jobs = out.Jobs[:min(len(out.Jobs), q.limit)]
		last := &out.Jobs[len(out.Jobs)-1]
		out.NextCursor = encodeCursor("jobs", strconv.FormatInt(last.CreatedMS, 10), last.JobID)
	}
	return out, nil
}

// find returns the jobs that the store lists, and the ended ones that this instance remembers and the store does not list any more.
func (h *jobHandlers) find(ctx context.Context, p store.ListParams) ([]*core.Job, error) {
	jobs, err := h.dispatcher.Jobs(ctx, p)
	if err != nil || p.State != 0 && !p.State.Terminal() {
		return jobs, err
	}
	listed := make(map[core.JobID]bool, len(jobs))
	for _, job := range jobs {
		listed[job.ID] = true
	}
	for _, job := range h.ring.Search(&p) {
		if !listed[job.ID] {
			jobs = append(jobs, job)
		}
	}
	if jobs = p.Page(jobs); p.Limit > 0 && len(jobs) > p.Limit {
		jobs = jobs[:p.Limit]
	}
	return jobs, nil
}

// addFromPeers adds the jobs of the other instances to the answer of r: the store has the jobs that run, and each instance lists those
// whose end it recorded. It reports whether an instance has more jobs than it listed.
func (h *jobHandlers) addFromPeers(list *wire.JobList, r *http.Request) (more bool) {
	list.Partial, list.Incomplete = fetchFromPeers(h.peers, r, func(found *wire.JobList) {
		for i := range found.Jobs {
			withholdText(r.Context(), &found.Jobs[i])
		}
		list.Jobs = append(list.Jobs, found.Jobs...)
		list.SinceMS = max(list.SinceMS, found.SinceMS)
		more = more || found.NextCursor != ""
	})
	slices.SortStableFunc(list.Jobs, func(a, b wire.Job) int {
		return cmp.Or(cmp.Compare(b.CreatedMS, a.CreatedMS), cmp.Compare(a.JobID, b.JobID), cmp.Compare(b.UpdatedMS, a.UpdatedMS))
	})
	list.Jobs = slices.CompactFunc(list.Jobs, func(a, b wire.Job) bool { return a.JobID == b.JobID })
	return more
}

// jobFilter converts the query of a list of jobs. Its limit is one more than the page has, to know whether there are more.
func (h *jobHandlers) jobFilter(q *listQuery) (store.ListParams, *wire.Error) {
	p := store.ListParams{
		Node: core.NodeID(q.Get("node_id")), Session: core.SessionID(q.Get("session_id")), Region: q.Get("region"), Limit: q.limit + 1,
	}
	if e := convert.CheckOptionalID("node_id", string(p.Node)); e != nil {
		return p, e
	}
	if e := convert.CheckOptionalID("session_id", string(p.Session)); e != nil {
		return p, e
	}
	var e *wire.Error
	if p.Lang, e = h.read.OptionalLang("language", q.Get("language")); e != nil {
		return p, e
	}
	if e := h.searchFilter(q, &p); e != nil {
		return p, e
	}
	if p.State, p.Phase, e = readJobState(q.Get("state")); e != nil {
		return p, e
	}
	if q.after != nil {
		created, err := strconv.ParseInt(q.after[0], 10, 64)
		if err != nil {
			return p, errCursor()
		}
		p.After = store.JobPosition{Created: created, Job: core.JobID(q.after[1])}
	}
	return p, nil
}

// viewJob is a job as the API shows it to the caller.
func viewJob(ctx context.Context, j *core.Job) wire.Job {
	v := convert.Job(j)
	withholdText(ctx, &v)
	return v
}

func (h *jobHandlers) cancel(r *http.Request) (*wire.CancelResponse, error) {
	id := r.PathValue("id")
	c := callOf(r.Context())
	visible, err := h.visibleJob(r.Context(), core.JobID(id))
	if e := (*wire.Error)(nil); errors.As(err, &e) && e.Code == wire.NotFound {
		w, failed := h.dispatcher.CancelWaiting(r.Context(), core.JobID(id), visibleTenant(r.Context()))
		if failed != nil {
			return nil, failed
		}
		if w != nil {
			c.concerns("job", id, w.Tenant)
			return &wire.CancelResponse{OK: true, Cancelled: true, Waited: true, Job: viewCancelledWaiting(w)}, nil
		}
	}
	if err != nil {
		return nil, err
	}
	c.concerns("job", id, visible.Tenant)
	j, cancelled, err := h.dispatcher.Cancel(r.Context(), core.JobID(id))
	if err != nil {
		return nil, err
	}
	if !cancelled {
		c.reason = "ended" // before
	}
	return &wire.CancelResponse{OK: true, Cancelled: cancelled, Job: viewJob(r.Context(), j)}, nil
}
