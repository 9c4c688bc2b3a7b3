package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/journal"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// liveReader reads the stream of a dashboard.
type liveReader struct {
	t      testing.TB
	lines  *bufio.Scanner
	cancel context.CancelFunc
}

// openLive opens the stream of a dashboard with a cookie, or a key.
func (ts *testScheduler) openLive(cookie *http.Cookie, key string) *liveReader {
	ts.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout) // after it, the stream ends with an error
	ts.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, ts.url+"/v1/live", http.NoBody)
	if err != nil {
		ts.t.Fatal(err)
	}
	if cookie != nil {
		req.AddCookie(cookie)
	} else if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		ts.t.Fatal(err)
	}
	ts.t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Cache-Control") != "no-store, no-transform" || resp.Header.Get("X-Accel-Buffering") != "no" {
		ts.t.Fatalf("%d %v", resp.StatusCode, resp.Header)
	}
	return &liveReader{ts.t, bufio.NewScanner(resp.Body), cancel}
}

// next returns the next event; false when the stream has ended.
func (r *liveReader) next() (name, data string, ok bool) {
	for r.lines.Scan() {
		field, value, _ := strings.Cut(r.lines.Text(), ": ")
		switch field {
		case "event":
			name = value
		case "data":
			return name, value, true
		}
	}
	return "", "", false
}

// nodes reads lists of events until one is about the last of some nodes, and returns the nodes of all.
func (r *liveReader) nodes(last string) (nodes []string) {
	r.t.Helper()
	for {
		name, data, ok := r.next()
		if !ok {
			r.t.Fatalf("the stream has ended after %v", nodes)
		}
		if name != "events" {
			continue
		}
		var list []wire.Event
		if err := json.Unmarshal([]byte(data), &list); err != nil {
			r.t.Fatal(err)
		}
		for _, e := range list {
			if e.NodeID != "" {
				nodes = append(nodes, e.NodeID)
			}
		}
		if slices.Contains(nodes, last) {
			return nodes
		}
	}
}

// TestLiveStream: every dashboard gets the events of its tenant once and in order, and one that sees all tenants gets the figures.
func TestLiveStream(t *testing.T) {
	t.Parallel()
	ts := startMatrix(t)
	all, acme := ts.openLive(ts.login(keySecret("operator")), ""), ts.openLive(nil, keySecret("viewer-acme"))
	if err := journal.EventLog(ts.scheduler.Store).Append(t.Context(), []store.Event{
		{Kind: store.EventNodeEjected, Node: "beta-1", Tenant: "beta", At: time.Now()},
		{Kind: store.EventNodeEjected, Node: "acme-1", Tenant: "acme", At: time.Now()},
		{Kind: store.EventNodeEjected, Node: "shared", At: time.Now()},
		{Kind: store.EventNodeEjected, Node: "acme-2", Tenant: "acme", At: time.Now()},
	}); err != nil {
		t.Fatal(err)
	}
	if got := all.nodes("acme-2"); !slices.Equal(got, []string{"beta-1", "acme-1", "shared", "acme-2"}) {
		t.Errorf("all tenants: %v", got)
	}
	if got := acme.nodes("acme-2"); !slices.Equal(got, []string{"acme-1", "acme-2"}) {
		t.Errorf("acme: %v", got)
	}
	overview := ts.openLive(nil, keySecret("viewer"))
	for {
		name, data, ok := overview.next()
		if !ok {
			t.Fatal("the stream has ended without figures")
		}
		if name == "overview" {
			var o wire.LiveOverview
			if err := json.Unmarshal([]byte(data), &o); err != nil || o.Point.AtMS == 0 || o.Point.Instances != 1 {
				t.Errorf("%s: %v", data, err)
			}
			return
		}
	}
}

// wantEnd reads a stream until the server ends it.
func (r *liveReader) wantEnd(why string) {
	r.t.Helper()
	for ok := true; ok; {
		_, _, ok = r.next()
	}
	if err := r.lines.Err(); err != nil {
		r.t.Errorf("the stream was not ended by the server because %s: %v", why, err)
	}
}

// TestLiveStreamEnds: a stream ends when its login ends, when its key has another role or tenant, and when the instance stops.
func TestLiveStreamEnds(t *testing.T) {
	t.Parallel()
	ts := startMatrix(t)
	operator := keySecret("operator")
	cookie := ts.login(operator)
	loggedOut, bound, demoted, stopping := ts.openLive(cookie, ""), ts.openLive(nil, keySecret("viewer")), ts.openLive(nil, keySecret("viewer-acme")), ts.openLive(nil, operator)
	ts.requestWith(cookie, "POST", "/logout", nil).decode(&wire.LogoutResponse{})
	loggedOut.wantEnd("its login has ended")
	next := config.Default()
	next.Auth.Keys = []config.Key{
		{Name: "operator", Role: "operator", SHA256: []string{hashOf(operator)}},
		{Name: "viewer", Role: "viewer", Tenant: "acme", SHA256: []string{hashOf(keySecret("viewer"))}},
		{Name: "viewer-acme", Role: "metrics", SHA256: []string{hashOf(keySecret("viewer-acme"))}},
	}
	ts.scheduler.SetConfigSource(func() (config.Config, []string, error) { return next, nil, nil })
	ts.requestAs(operator, "POST", "/v1/config/reload", nil).decode(&wire.ReloadResponse{})
	bound.wantEnd("its key has a tenant now")
	demoted.wantEnd("its key has another role")
	ts.scheduler.Server.SetNotReady()
	stopping.wantEnd("the instance stops")
}

// TestLiveStreamsAreShared: the viewers of one tenant cannot take all streams, and those who are not operators leave some to operators.
func TestLiveStreamsAreShared(t *testing.T) {
	t.Parallel()
	ts := startMatrix(t)
	open := func(key string, most int) (opened int) {
		for range most {
			if ts.requestStream(key) == http.StatusTooManyRequests {
				break
			}
			opened++
		}
		return opened
	}
	if n := open(keySecret("viewer-acme"), 100); n != 32 {
		t.Errorf("a tenant has %d streams, want 32", n)
	}
	if n := open(keySecret("viewer"), 300); n != 192-32 {
		t.Errorf("viewers have %d further streams, want %d", n, 192-32)
	}
	if n := open(keySecret("operator"), 300); n != 256-192 {
		t.Errorf("operators have %d further streams, want %d", n, 256-192)
	}
}

// requestStream opens a stream, which stays open until the test ends, and returns the status of the answer.
func (ts *testScheduler) requestStream(key string) int {
	ts.t.Helper()
	req, err := http.NewRequestWithContext(ts.t.Context(), http.MethodGet, ts.url+"/v1/live", http.NoBody)
	if err != nil {
		ts.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		ts.t.Fatal(err)
	}
	ts.t.Cleanup(func() { _ = resp.Body.Close() })
	return resp.StatusCode
}
