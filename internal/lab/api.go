package lab

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// API is a client of the scheduler's HTTP API, for nodes and callers.
type API struct {
	URL   string
	Token string // sent as Authorization: Bearer; empty: none is sent
	HTTP  *http.Client
}

// NewAPI returns a client with an HTTP client of its own that keeps many connections open.
func NewAPI(url string) *API {
	return &API{URL: url, HTTP: &http.Client{Transport: newTransport(nil), Timeout: 30 * time.Second}}
}

func newTransport(secure *tls.Config) *http.Transport {
	return &http.Transport{MaxIdleConns: 4096, MaxIdleConnsPerHost: 4096, IdleConnTimeout: time.Minute, TLSClientConfig: secure}
}

// SetTLS sets the configuration of TLS, before the first request; nil: the default.
func (a *API) SetTLS(secure *tls.Config) { a.HTTP.Transport = newTransport(secure) }

// Close closes the idle connections.
func (a *API) Close() { a.HTTP.CloseIdleConnections() }

// Post sends a body and decodes the answer into out.
func (a *API) Post(ctx context.Context, path string, in, out any) error {
	return a.Do(ctx, http.MethodPost, path, in, out)
}

// Get reads a path and decodes the answer into out.
func (a *API) Get(ctx context.Context, path string, out any) error {
	return a.Do(ctx, http.MethodGet, path, nil, out)
}

// Do sends a request, with a body unless in is nil, and decodes the answer into out unless that is nil. An error answer is returned as a
// *wire.Error.
func (a *API) Do(ctx context.Context, method, path string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, a.URL+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	// Every request may be repeated, so the HTTP client may send it once more if the scheduler closed the kept connection meanwhile. The
	// header is empty, so it is not sent.
	req.Header["Idempotency-Key"] = nil
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if a.Token != "" {
		req.Header.Set("Authorization", "Bearer "+a.Token)
	}
	resp, err := a.HTTP.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	switch {
	case resp.StatusCode/100 == 2 && out == nil:
		return nil
	case resp.StatusCode/100 == 2:
		return json.Unmarshal(answer, out)
	}
	e := new(wire.Error)
	if json.Unmarshal(answer, e) != nil || e.Code == "" {
		return fmt.Errorf("%s %s answered %s", method, path, resp.Status)
	}
	return e
}
