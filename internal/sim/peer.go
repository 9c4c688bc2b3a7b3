package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/wire"
)

// Peer is a scheduler somewhere, as its nodes and callers see it.
type Peer struct {
	URL    string
	Client *http.Client
}

// NewPeer makes a peer with a client of its own that keeps many connections open.
func NewPeer(url string) *Peer {
	return &Peer{URL: url, Client: &http.Client{
		Transport: &http.Transport{MaxIdleConns: 4096, MaxIdleConnsPerHost: 4096, IdleConnTimeout: time.Minute},
		Timeout:   30 * time.Second,
	}}
}

// Close drops its idle connections.
func (p *Peer) Close() { p.Client.CloseIdleConnections() }

// Post sends a body and reads the answer. An error answer comes back as a *wire.Error.
func (p *Peer) Post(ctx context.Context, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	return p.do(ctx, http.MethodPost, path, body, out)
}

// Get reads an answer.
func (p *Peer) Get(ctx context.Context, path string, out any) error {
	return p.do(ctx, http.MethodGet, path, nil, out)
}

func (p *Peer) do(ctx context.Context, method, path string, body []byte, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, p.URL+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := p.Client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode/100 == 2 {
		return json.Unmarshal(answer, out)
	}
	e := new(wire.Error)
	if json.Unmarshal(answer, e) != nil || e.Code == "" {
		return fmt.Errorf("%s %s answered %s", method, path, resp.Status)
	}
	return e
}

// Insist posts until there is an answer that a repeat would not change: a node keeps a result until it is
// acknowledged.
func (p *Peer) Insist(ctx context.Context, path string, in, out any) error {
	retry := backoff.Backoff{Min: 10 * time.Millisecond, Max: time.Second}
	for {
		err := p.Post(ctx, path, in, out)
		var said *wire.Error
		if err == nil || errors.As(err, &said) && !said.Code.Retryable() {
			return err
		}
		if !retry.Wait(ctx) {
			return err
		}
	}
}
