package server

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/peer"
	"github.com/lingua-scheduler/lingua/wire"
)

// peerTimeout is for the answers of all other instances.
const peerTimeout = 2 * time.Second

// peerJobs asks the other instances for jobs that ended there: the store has the jobs that run, and each instance lists those whose
// end it recorded.
type peerJobs struct {
	bus    *bus.Bus
	client *peer.Client
	log    *slog.Logger
}

// addTo adds the jobs of the other instances to the answer of r. It reports whether an instance has more jobs than it listed. If not
// every instance could be asked, the list is partial.
func (p *peerJobs) addTo(list *wire.JobList, r *http.Request) (more bool) {
	ctx, cancel := context.WithTimeout(r.Context(), peerTimeout)
	defer cancel()
	peers, err := p.bus.Peers(ctx)
	if err != nil {
		p.log.Warn("the store did not answer", "operation", "instances", "error", err)
		list.Partial = true
		return false
	}
	q := r.URL.Query()
	q.Set("scope", scopeHere)
	uri, caller := "/v1/jobs?"+q.Encode(), principalOf(r.Context())
	var mu sync.Mutex
	var requests sync.WaitGroup
	for _, peer := range peers {
		switch {
		case peer.This || !peer.Present:
			continue
		case peer.URL == "" || !p.client.Enabled():
			list.Partial = true
			continue
		}
		requests.Go(func() {
			var found wire.JobList
			err := p.client.Get(ctx, peer.URL, uri, caller, &found)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				p.log.Warn("another instance did not list its jobs", "instance", peer.ID, "error", err)
				list.Partial = true
				return
			}
			list.Jobs = append(list.Jobs, found.Jobs...)
			more = more || found.NextCursor != ""
		})
	}
	requests.Wait()
	slices.SortStableFunc(list.Jobs, func(a, b wire.Job) int {
		return cmp.Or(cmp.Compare(b.CreatedMS, a.CreatedMS), cmp.Compare(a.JobID, b.JobID), cmp.Compare(b.UpdatedMS, a.UpdatedMS))
	})
	list.Jobs = slices.CompactFunc(list.Jobs, func(a, b wire.Job) bool { return a.JobID == b.JobID })
	return more
}
