package server

import (
	"net/http"
	"strconv"

	"github.com/lingua-scheduler/lingua/internal/convert"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// fewJobs is how many jobs a page holds unless the caller says.
const fewJobs = 100

// jobs lists jobs, the newest first. What has not ended is found by the lease sets of all nodes, or of the one that is asked
// for: there is no index of jobs, which would cost each of them a write.
func (s *Server) jobs(r *http.Request) (any, error) {
	q, e := readList(r.URL.Query(), "jobs", 2, fewJobs, "state", "node_id", "session_id", "language", "region", "scope")
	if e != nil {
		return nil, e
	}
	p, e := s.jobFilter(&q)
	if e != nil {
		return nil, e
	}
	scope := q.Get("scope")
	if scope != "" && scope != scopeHere {
		return nil, wire.Invalid("scope", "must be %s, or absent", scopeHere)
	}
	list, err := s.Jobs.Jobs(r.Context(), p)
	if err != nil {
		return nil, err
	}
	out := &wire.JobList{Jobs: make([]wire.Job, len(list))}
	for i := range list {
		out.Jobs[i] = convert.Job(list[i])
	}
	more := false
	if scope != scopeHere {
		more = s.jobsElsewhere(r, out)
	}
	if more = more || len(out.Jobs) > q.limit; more && len(out.Jobs) > 0 {
		out.Jobs = out.Jobs[:min(len(out.Jobs), q.limit)]
		last := &out.Jobs[len(out.Jobs)-1]
		out.NextCursor = cursor("jobs", strconv.FormatInt(last.CreatedMS, 10), last.JobID)
	}
	return out, nil
}

// jobFilter reads which jobs are asked for. One more than the page holds is looked for, to know whether there are more.
func (s *Server) jobFilter(q *listQuery) (store.ListParams, *wire.Error) {
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
	if p.Lang, e = s.Read.OptionalLang("language", q.Get("language")); e != nil {
		return p, e
	}
	if name := q.Get("state"); name != "" {
		state, err := core.ParseState(name)
		if err != nil {
			return p, wire.Invalid("state", "%s", err)
		}
		p.State = state
	}
	if q.after != nil {
		created, err := strconv.ParseInt(q.after[0], 10, 64)
		if err != nil {
			return p, wire.Invalid("cursor", "must be next_cursor of an answer of the same list")
		}
		p.After = store.JobPosition{Created: created, Job: core.JobID(q.after[1])}
	}
	return p, nil
}

func (s *Server) job(r *http.Request) (any, error) {
	id := r.PathValue("id")
	if e := convert.CheckID("id", id); e != nil {
		return nil, e
	}
	j, err := s.Jobs.Job(r.Context(), core.JobID(id))
	if err != nil {
		return nil, err
	}
	return convert.Job(j), nil
}

func (s *Server) cancel(r *http.Request) (any, error) {
	id := r.PathValue("id")
	if e := convert.CheckID("id", id); e != nil {
		return nil, e
	}
	j, cancelled, err := s.Jobs.Cancel(r.Context(), core.JobID(id))
	if err != nil {
		return nil, err
	}
	return &wire.CancelResponse{OK: true, Cancelled: cancelled, Job: convert.Job(j)}, nil
}
