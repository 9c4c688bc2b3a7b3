package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/bus"
)

const (
	peerTimeout   = 2 * time.Second // for the answers of all other instances
	maxPeerAnswer = 8 << 20         // bytes
)

// peerLists asks the other instances for the entries of a list that only they have.
type peerLists struct {
	bus    *bus.Bus
	client *http.Client
	log    *slog.Logger
}

// newPeerLists makes a peerLists. Its client sends the caller's credential, so it does not follow redirects.
func newPeerLists(b *bus.Bus, log *slog.Logger) *peerLists {
	return &peerLists{bus: b, log: log, client: &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// fetchFromPeers sends the request r for a list to every other instance, and calls add with each answer, one after the other. An
// instance that does not answer is left out.
func fetchFromPeers[T any](p *peerLists, r *http.Request, add func(*T)) {
	ctx, cancel := context.WithTimeout(r.Context(), peerTimeout)
	defer cancel()
	peers, err := p.bus.Peers(ctx)
	if err != nil {
		p.log.Warn("the store did not answer", "operation", "instances", "error", err)
		return
	}
	var mu sync.Mutex
	var requests sync.WaitGroup
	for _, peer := range peers {
		if peer.This || !peer.Present || peer.URL == "" {
			continue
		}
		requests.Go(func() {
			found := new(T)
			if err := p.fetch(ctx, peer.URL, r, found); err != nil {
				p.log.Warn("another instance did not answer with its part of a list", "path", r.URL.Path, "instance", peer.ID, "error", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			add(found)
		})
	}
	requests.Wait()
}

// fetch sends the request r to another instance, limited to what it has itself, with the caller's credential.
func (p *peerLists) fetch(ctx context.Context, base string, r *http.Request, list any) error {
	q := r.URL.Query()
	q.Set("scope", scopeHere)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+r.URL.Path+"?"+q.Encode(), nil)
	if err != nil {
		return err
	}
	if key := r.Header.Get("Authorization"); key != "" {
		req.Header.Set("Authorization", key)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return json.NewDecoder(io.LimitReader(resp.Body, maxPeerAnswer)).Decode(list)
}
