package server

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	fewJobs  = 100
	manyJobs = 1000
)

// jobFilters are what a list of jobs can be narrowed by. A filter that is misspelt must not list everything.
var jobFilters = []string{"state", "node_id", "session_id", "limit", "scope"}

func (s *Server) jobs(r *http.Request) (any, error) {
	q := r.URL.Query()
	for name := range q {
		if !slices.Contains(jobFilters, name) {
			return nil, wire.Invalid("query", "there are no other filters than %s", strings.Join(jobFilters, ", "))
		}
	}
	p := store.ListParams{Node: core.NodeID(q.Get("node_id")), Session: core.SessionID(q.Get("session_id")), Limit: fewJobs}
	if e := checkOptionalID("node_id", string(p.Node)); e != nil {
		return nil, e
	}
	if e := checkOptionalID("session_id", string(p.Session)); e != nil {
		return nil, e
	}
	if name := q.Get("state"); name != "" {
		state, err := core.ParseState(name)
		if err != nil {
			return nil, wire.Invalid("state", "%s", err)
		}
		p.State = state
	}
	if limit := q.Get("limit"); limit != "" {
		n, err := strconv.Atoi(limit)
		if err != nil || n < 1 || n > manyJobs {
			return nil, wire.Invalid("limit", "must be a number between 1 and %d", manyJobs)
		}
		p.Limit = n
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
		out.Jobs[i] = viewJob(list[i])
	}
	if scope != scopeHere {
		s.jobsElsewhere(r, out)
		out.Jobs = out.Jobs[:min(len(out.Jobs), p.Limit)]
	}
	return out, nil
}

func (s *Server) job(r *http.Request) (any, error) {
	id := r.PathValue("id")
	if e := checkID("id", id); e != nil {
		return nil, e
	}
	j, err := s.Jobs.Job(r.Context(), core.JobID(id))
	if err != nil {
		return nil, err
	}
	return viewJob(j), nil
}

func (s *Server) cancel(r *http.Request) (any, error) {
	id := r.PathValue("id")
	if e := checkID("id", id); e != nil {
		return nil, e
	}
	j, cancelled, err := s.Jobs.Cancel(r.Context(), core.JobID(id))
	if err != nil {
		return nil, err
	}
	return &wire.CancelResponse{OK: true, Cancelled: cancelled, Job: viewJob(j)}, nil
}
