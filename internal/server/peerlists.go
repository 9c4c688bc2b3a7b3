package server

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/bus"
)

// peerTimeout is for the answers of all other instances.
const peerTimeout = 2 * time.Second

// peerLists asks the other instances for the entries of a list that only they have.
type peerLists struct {
	bus    *bus.Bus
	client *auth.PeerClient
	log    *slog.Logger
}

// fetchFromPeers sends the request r for a list to every other instance, limited to what it has itself, and calls add with each answer,
// one after the other. It reports whether the list is partial, and which instances could not be asked, or did not answer in time.
func fetchFromPeers[T any](p *peerLists, r *http.Request, add func(*T)) (partial bool, missing []string) {
	ctx, cancel := context.WithTimeout(r.Context(), peerTimeout)
	defer cancel()
	peers, err := p.bus.Peers(ctx)
	if err != nil {
		p.log.Warn("the store did not answer", "operation", "instances", "error", err)
		return true, nil
	}
	q := r.URL.Query()
	q.Set("scope", scopeHere)
	uri, caller := r.URL.Path+"?"+q.Encode(), principalOf(r.Context())
	var mu sync.Mutex
	var requests sync.WaitGroup
	for _, peer := range peers {
		switch {
		case peer.This || !peer.Present:
			continue
		case peer.URL == "" || !p.client.Enabled():
			mu.Lock()
			missing = append(missing, string(peer.ID))
			mu.Unlock()
			continue
		}
		requests.Go(func() {
			found := new(T)
			err := p.client.Get(ctx, peer.URL, uri, caller, found)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				p.log.Warn("another instance did not answer with its part of a list", "path", r.URL.Path, "instance", peer.ID, "error", err)
				missing = append(missing, string(peer.ID))
				return
			}
			add(found)
		})
	}
	requests.Wait()
	slices.Sort(missing)
	return len(missing) > 0, missing
}
