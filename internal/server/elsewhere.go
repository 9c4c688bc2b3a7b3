package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

const (
	scopeHere = "here"
	askFor    = 2 * time.Second // how long another scheduler is waited for
	mostHeard = 8 << 20         // bytes of an answer
)

// jobsElsewhere adds the jobs that ended with other schedulers: what runs is in the store, what has ended is listed by
// whoever heard of it. One that does not answer is left out. It reports whether one of them has more than it said.
func (s *Server) jobsElsewhere(r *http.Request, into *wire.JobList) (more bool) {
	ctx, cancel := context.WithTimeout(r.Context(), askFor)
	defer cancel()
	peers, err := s.Bus.Peers(ctx)
	if err != nil {
		s.Log.Warn("the store did not answer", "operation", "instances", "error", err)
		return false
	}
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, p := range peers {
		if p.This || !p.Present || p.URL == "" {
			continue
		}
		asking.Go(func() {
			list, err := s.askJobs(ctx, p.URL, r)
			if err != nil {
				s.Log.Warn("another scheduler did not say which jobs ended there", "instance", p.ID, "error", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			into.Jobs = append(into.Jobs, list.Jobs...)
			more = more || list.NextCursor != ""
		})
	}
	asking.Wait()
	slices.SortStableFunc(into.Jobs, func(a, b wire.Job) int {
		return cmp.Or(cmp.Compare(b.CreatedMS, a.CreatedMS), cmp.Compare(a.JobID, b.JobID), cmp.Compare(b.UpdatedMS, a.UpdatedMS))
	})
	into.Jobs = slices.CompactFunc(into.Jobs, func(a, b wire.Job) bool { return a.JobID == b.JobID })
	return more
}

// askJobs asks another scheduler the same question about itself alone, in the name of whoever asks.
func (s *Server) askJobs(ctx context.Context, base string, r *http.Request) (*wire.JobList, error) {
	q := r.URL.Query()
	q.Set("scope", scopeHere)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/v1/jobs?"+q.Encode(), nil)
	if err != nil {
		return nil, err
	}
	if key := r.Header.Get("Authorization"); key != "" {
		req.Header.Set("Authorization", key)
	}
	resp, err := s.elsewhere.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(resp.Status)
	}
	list := new(wire.JobList)
	return list, json.NewDecoder(io.LimitReader(resp.Body, mostHeard)).Decode(list)
}
