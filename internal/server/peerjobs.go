package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	peerTimeout   = 2 * time.Second // for the answers of all other instances
	maxPeerAnswer = 8 << 20         // bytes
)

// peerJobs asks the other instances for jobs that ended there: the store has the jobs that run, and each instance lists those whose
// end it recorded.
type peerJobs struct {
	bus    *bus.Bus
	client *http.Client
	log    *slog.Logger
}

// newPeerJobs makes a peerJobs. Its client sends the operator's credential, so it does not follow redirects.
func newPeerJobs(b *bus.Bus, secure *tls.Config, log *slog.Logger) *peerJobs {
	return &peerJobs{bus: b, log: log, client: &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, TLSClientConfig: secure},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// addTo adds the jobs of the other instances to the answer of r. An instance that does not answer is left out. It reports whether an
// instance has more jobs than it listed.
func (p *peerJobs) addTo(list *wire.JobList, r *http.Request) (more bool) {
	ctx, cancel := context.WithTimeout(r.Context(), peerTimeout)
	defer cancel()
	peers, err := p.bus.Peers(ctx)
	if err != nil {
		p.log.Warn("the store did not answer", "operation", "instances", "error", err)
		return false
	}
	var mu sync.Mutex
	var requests sync.WaitGroup
	for _, peer := range peers {
		if peer.This || !peer.Present || peer.URL == "" {
			continue
		}
		requests.Go(func() {
			found, err := p.fetch(ctx, peer.URL, r)
			if err != nil {
				p.log.Warn("another instance did not list its jobs", "instance", peer.ID, "error", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
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

// fetch sends the request r to another instance, limited to the jobs that it knows, with the caller's credential.
func (p *peerJobs) fetch(ctx context.Context, base string, r *http.Request) (*wire.JobList, error) {
	q := r.URL.Query()
	q.Set("scope", scopeHere)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/v1/jobs?"+q.Encode(), nil)
	if err != nil {
		return nil, err
	}
	if key := r.Header.Get("Authorization"); key != "" {
		req.Header.Set("Authorization", key)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(resp.Status)
	}
	list := new(wire.JobList)
	return list, json.NewDecoder(io.LimitReader(resp.Body, maxPeerAnswer)).Decode(list)
}
