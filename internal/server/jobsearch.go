package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/lingua-scheduler/lingua/internal/convert"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// maxReasonName is the length of the longest reason.
const maxReasonName = 64

// searchFilter converts the parts of a query that only searches have.
func (h *jobHandlers) searchFilter(q *listQuery, p *store.ListParams) *wire.Error {
	var e *wire.Error
	if p.Src, e = h.read.OptionalLang("src_lang", q.Get("src_lang")); e != nil {
		return e
	}
	if p.Tgt, e = h.read.OptionalLang("tgt_lang", q.Get("tgt_lang")); e != nil {
		return e
	}
	for _, id := range []string{"search", "tenant_id"} {
		if e := convert.CheckOptionalID(id, q.Get(id)); e != nil {
			return e
		}
	}
	p.Search = q.Get("search")
	if p.Reason, e = readReason(q.Values, "reason"); e != nil {
		return e
	}
	if p.EndedBy, e = readReason(q.Values, "end_reason"); e != nil {
		return e
	}
	if p.Since, e = readMillis(q.Values, "since"); e != nil {
		return e
	}
	p.Until, e = readMillis(q.Values, "until")
	return e
}

// readReason reads the name of a reason, which may be absent.
func readReason(q url.Values, name string) (core.Reason, *wire.Error) {
	reason := q.Get(name)
	if len(reason) > maxReasonName || slices.ContainsFunc([]byte(reason), func(c byte) bool { return c != '_' && (c < 'A' || c > 'Z') }) {
		return "", wire.Invalid(name, "must be at most %d characters A to Z and _, such as NODE_LOST", maxReasonName)
	}
	return core.Reason(reason), nil
}

// readJobState converts the filter by state, which may be absent: the name of a state, or of a phase.
func readJobState(name string) (core.State, store.Phase, *wire.Error) {
	switch name {
	case "":
		return 0, 0, nil
	case openState:
		return 0, store.PhaseOpen, nil
	case endedState:
		return 0, store.PhaseEnded, nil
	}
	state, err := core.ParseState(name)
	if err != nil {
		return 0, 0, wire.Invalid("state", "%s; or open or ended", err)
	}
	return state, 0, nil
}

// readMillis parses a time in Unix milliseconds, which may be absent.
func readMillis(q url.Values, name string) (time.Time, *wire.Error) {
	text := q.Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil || ms < 0 || ms > maxMillis {
		return time.Time{}, wire.Invalid(name, "must be a time in Unix milliseconds")
	}
	return time.UnixMilli(ms), nil
}

// maxMillis is the last time that can be asked for, in the year 9999.
const maxMillis = 253_402_300_799_999

// actionReadText is the action of a request for what was said in a job.
const actionReadText = "job.read_text"

// get shows a job. With decisions, the other instances are asked how they chose nodes for it.
func (h *jobHandlers) get(r *http.Request) (*wire.JobDetail, error) {
	id := core.JobID(r.PathValue("id"))
	q := r.URL.Query()
	callOf(r.Context()).concerns("job", string(id), "")
	if e := readText(r.Context(), q, actionReadText); e != nil {
		return nil, e
	}
	switch q.Get("decisions") {
	case "", "false":
		j, err := h.visibleJob(r.Context(), id)
		if err != nil {
			return nil, err
		}
		return &wire.JobDetail{Job: viewJob(r.Context(), j)}, nil
	case "true":
	default:
		return nil, wire.Invalid("decisions", "must be true or false")
	}
	j, err := h.visibleJob(r.Context(), id)
	if e := (*wire.Error)(nil); err != nil && (!errors.As(err, &e) || e.Code != wire.NotFound) {
		return nil, err
	}
	remembered := h.remembered(r, id)
	out := &wire.JobDetail{Decisions: remembered.Decisions, Incomplete: remembered.Incomplete}
	switch {
	case err == nil:
		out.Job = viewJob(r.Context(), j)
	case remembered.Job != nil: // its record has expired
		out.Job = *remembered.Job
	default:
		return nil, err
	}
	return out, nil
}

// decisions shows how nodes were chosen for a job.
func (h *jobHandlers) decisions(r *http.Request) (*wire.JobDecisions, error) {
	id := core.JobID(r.PathValue("id"))
	if r.URL.Query().Get("scope") == scopeHere {
		return h.rememberedHere(r.Context(), id), nil
	}
	out := h.remembered(r, id)
	if out.Job != nil || len(out.Decisions) > 0 {
		return out, nil
	}
	if _, err := h.visibleJob(r.Context(), id); err != nil {
		return nil, err
	}
	return out, nil
}

// remembered is what all instances remember of a job, as far as the caller may see it.
func (h *jobHandlers) remembered(r *http.Request, id core.JobID) *wire.JobDecisions {
	out := h.rememberedHere(r.Context(), id)
	ask := r.Clone(r.Context())
	ask.URL = &url.URL{Path: "/v1/jobs/" + string(id) + "/decisions"}
	_, out.Incomplete = fetchFromPeers(h.peers, ask, func(found *wire.JobDecisions) {
		out.Decisions = append(out.Decisions, found.Decisions...)
		if out.Job == nil || found.Job != nil && found.Job.UpdatedMS > out.Job.UpdatedMS {
			out.Job = found.Job
		}
		if out.Job != nil {
			withholdText(r.Context(), out.Job)
		}
	})
	slices.SortStableFunc(out.Decisions, func(a, b wire.Decision) int {
		return cmp.Or(cmp.Compare(a.AttemptID, b.AttemptID), cmp.Compare(a.AtMS, b.AtMS))
	})
	return out
}

// rememberedHere is what this instance remembers of a job, as far as the caller may see it.
func (h *jobHandlers) rememberedHere(ctx context.Context, id core.JobID) *wire.JobDecisions {
	p, out := principalOf(ctx), &wire.JobDecisions{Decisions: []wire.Decision{}}
	if job := h.ring.Job(id); job != nil && p.SeesTenant(job.Tenant) {
		view := viewJob(ctx, job)
		out.Job = &view
	}
	for _, d := range h.ring.Decisions(id) {
		if p.SeesTenant(d.Tenant) {
			out.Decisions = append(out.Decisions, viewDecision(&d, string(h.peers.bus.Instance()), p.AllTenants()))
		}
	}
	return out
}

// viewDecision is a decision as the API shows it. A caller that sees one tenant does not learn of the nodes of others.
func viewDecision(d *core.Decision, instance string, allTenants bool) wire.Decision {
	v := wire.Decision{
		AttemptID: d.Attempt, AtMS: d.AtMS, Instance: instance, NodeID: string(d.Node), PoolID: string(d.Pool),
		Candidates: []wire.Candidate{}, Others: map[string]int{},
	}
	for _, c := range d.Candidates {
		if allTenants || c.Reason != core.ReasonTenant {
			v.Candidates = append(v.Candidates, wire.Candidate{NodeID: string(c.Node), Chosen: c.Node == d.Node, Reason: string(c.Reason)})
		}
	}
	for reason, n := range d.Others {
		if allTenants || reason != core.ReasonTenant {
			v.Others[string(reason)] = n
		}
	}
	return v
}

// visibleJob returns a job that the caller may see. One of another tenant does not exist for it.
func (h *jobHandlers) visibleJob(ctx context.Context, id core.JobID) (*core.Job, error) {
	j, err := h.dispatcher.Job(ctx, id)
	if err != nil {
		return nil, err
	}
	if !principalOf(ctx).SeesTenant(j.Tenant) {
		return nil, dispatch.UnknownJob(id)
	}
	callOf(ctx).concerns("job", string(id), j.Tenant)
	return j, nil
}
