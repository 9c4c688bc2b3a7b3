package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/journal"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// eventReader reads a stream of events.
type eventReader struct {
	t      testing.TB
	cancel context.CancelFunc
	lines  *bufio.Scanner
}

// follow opens a stream of events with a key.
func (ts *testScheduler) follow(key, query, last string) *eventReader {
	ts.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	ts.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, ts.url+"/v1/events/stream?"+query, http.NoBody)
	if err != nil {
		ts.t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	transport := &http.Transport{DisableKeepAlives: true} // the client of ts reads whole answers
	resp, err := transport.RoundTrip(req)
	if err != nil {
		ts.t.Fatal(err)
	}
	ts.t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		ts.t.Fatalf("the stream is answered with %s, %s", resp.Status, resp.Header.Get("Content-Type"))
	}
	return &eventReader{t: ts.t, cancel: cancel, lines: bufio.NewScanner(resp.Body)}
}

// next returns the next event, as its name, its id and its data; false when the stream has ended.
func (r *eventReader) next() (name, id string, e wire.Event, ok bool) {
	r.t.Helper()
	for r.lines.Scan() {
		field, value, _ := strings.Cut(r.lines.Text(), ": ")
		switch field {
		case "id":
			id = value
		case "event":
			name = value
		case "data":
			if err := json.Unmarshal([]byte(value), &e); err != nil {
				r.t.Fatalf("%q: %v", value, err)
			}
		case "":
			if name != "" {
				return name, id, e, true
			}
		}
	}
	return name, id, e, false
}

// want checks that the next events have these names and nodes.
func (r *eventReader) want(events ...string) (last string) {
	r.t.Helper()
	for _, want := range events {
		name, id, e, ok := r.next()
		if got := name + " " + e.NodeID; !ok || got != want || id != e.ID || e.Kind != name {
			r.t.Fatalf("the next event is %q with the id %q (%v), want %q", got, id, ok, want)
		}
		last = id
	}
	return last
}

// newest is the position of the newest event.
func (ts *testScheduler) newest() string {
	list, _ := ts.eventsAfter("?limit=1")
	return list.Next
}

// TestEventStream follows events as they happen, and resumes after the last one that arrived.
func TestEventStream(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, func(c *config.Config) { c.Scheduler.Observability.PathWarnMS = 1 })
	ts.eventually("the leader's event", func() bool {
		list, _ := ts.eventsAfter("?kind=stats_leader")
		return len(list.Events) > 0
	})
	before := ts.newest()
	all, onlyN2, ejections := ts.follow("", "after="+before, ""), ts.follow("", "node=n2&after="+before, ""), ts.follow("", "kind=node_ejected&after="+before, "")
	ts.registerNode("n1", nil)
	ts.registerNode("n2", nil)
	last := all.want("node_registered n1", "node_registered n2")
	onlyN2.want("node_registered n2")
	all.cancel()
	if err := journal.EventLog(ts.scheduler.Store).Append(t.Context(), []store.Event{
		{Kind: store.EventNodeEjected, Node: "n1", At: time.Now()}, {Kind: store.EventStatsLeader, Instance: "i-2", At: time.Now()}, {Kind: store.EventNodeReadmitted, Node: "n1", At: time.Now()},
	}); err != nil {
		t.Fatal(err)
	}
	ejections.want("node_ejected n1")
	ts.follow("", "after="+before, last).want("node_ejected n1", "stats_leader ", "node_readmitted n1")
	if metrics := string(ts.get("/metrics").body); strings.Contains(metrics, `scheduler_slow_path_total{path="/v1/events/stream"}`) {
		t.Error("a stream counts as a slow request")
	}
}

// TestEventStreamOfNow checks that a stream without a position has only events from now on, and ends in its time.
func TestEventStreamOfNow(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	ts.eventually("the start of the instance", func() bool { return ts.newest() != "" })
	before := ts.newest()
	ts.registerNode("n1", nil)
	ts.eventually("the registration", func() bool {
		list, _ := ts.eventsAfter("?kind=node_registered")
		return len(list.Events) > 0
	})
	if name, _, e, ok := ts.follow("", "seconds=0&kind=node_registered", "").next(); ok {
		t.Errorf("an old event is sent: %s %+v", name, e)
	}
	ts.follow("", "seconds=0&kind=node_registered&after="+before, "").want("node_registered n1")
}

// TestInvalidEventStreams checks forged parameters and positions.
func TestInvalidEventStreams(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	for _, query := range []string{
		"seconds=-1", "seconds=3601", "seconds=x", "kind=x", "node=%00", "after=forged", "after=" + strings.Repeat("9", 20_000), "colour=red", "limit=0",
	} {
		ts.get("/v1/events/stream?" + query).expectError(wire.InvalidRequest)
	}
}

// TestEventStreamOfATenant checks that a key of one tenant gets events about its own nodes only.
func TestEventStreamOfATenant(t *testing.T) {
	t.Parallel()
	ts := startMatrix(t)
	position := func() string {
		var list wire.EventList
		ts.requestAs(keySecret("operator"), "GET", "/v1/events?limit=1", nil).decode(&list)
		return list.Next
	}
	ts.eventually("the first event", func() bool { return position() != "" })
	before := position()
	acme, all := ts.follow(keySecret("viewer-acme"), "after="+before, ""), ts.follow(keySecret("operator"), "kind=node_registered&after="+before, "")
	for _, n := range [][2]string{{"beta-1", "node-beta"}, {"gpu-1", "node-shared"}, {"acme-1", "node-acme"}} {
		registerKeyed(ts, n[0], keySecret(n[1]))
	}
	acme.want("node_registered acme-1")
	all.want("node_registered beta-1", "node_registered gpu-1", "node_registered acme-1")
}

// TestEventStreamEndsWithItsKey checks that a revoked key gets no further events.
func TestEventStreamEndsWithItsKey(t *testing.T) {
	t.Parallel()
	ts := startMatrix(t)
	stream := ts.follow(keySecret("viewer"), "kind=node_lost", "")
	ts.requestAs(keySecret("operator"), "POST", "/v1/auth/revocations", object{"key": "viewer"}).decode(&wire.Revocation{})
	if name, _, _, ok := stream.next(); ok {
		t.Errorf("a revoked key got the event %s", name)
	}
	if err := stream.lines.Err(); err != nil {
		t.Errorf("the stream did not end by itself: %v", err)
	}
}

// TestEventStreamsAreBounded opens streams up to the maximum.
func TestEventStreamsAreBounded(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	var open []*eventReader
	for range 64 {
		open = append(open, ts.follow("", "", ""))
	}
	ts.get("/v1/events/stream?seconds=0").expectError(wire.RateLimited)
	open[0].cancel()
	ts.eventually("a stream to end", func() bool { return ts.get("/v1/events/stream?seconds=0").status == http.StatusOK })
}
