package server

import (
	"context"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	// inspectInterval is the least time between two inspections of the store, for any number of requests, and inspectTimeout the longest
	// time that one takes.
	inspectInterval = 5 * time.Second
	inspectTimeout  = 2 * time.Second
)

// storeInspector inspects the shared store from time to time, while there are requests.
type storeInspector struct {
	store store.Inspector // nil: the state is in the memory of the process
	work  *run.Group      // inspections

	mu      sync.Mutex
	last    *inspection   // nil: there was none yet
	running chan struct{} // closed at the end of the inspection in progress; nil: there is none
}

// inspection is the result of an inspection. It is not changed.
type inspection struct {
	store.Inspection
	at time.Time
}

func (h *statusHandlers) storeRoute() route {
	return route{
		method: "GET", path: "/v1/store", rule: fleetReaders, tag: "operations", summary: "Show the shared store and its servers",
		description: "As the answering instance sees it. The servers are asked in the background, at most every 5 s, and only while " +
			"there are requests: a request waits only if it is the first one.",
		handler: handle(h.responder, h.showStore), codes: []wire.Code{wire.InvalidRequest, wire.SchedulerDependencyDown},
	}
}

func (h *statusHandlers) showStore(r *http.Request) (*wire.StoreStatus, error) {
	for name := range r.URL.Query() {
		return nil, wire.Invalid(wire.Quote(name), "is not known; there are no parameters")
	}
	out := &wire.StoreStatus{Kind: "memory"}
	if h.store.store != nil {
		last := h.store.inspected(r.Context())
		if last == nil {
			return nil, store.Unavailable()
		}
		out.Kind, out.Mode, out.CheckedMS = "redis", last.Mode, last.at.UnixMilli()
		for i := range last.Servers {
			out.Servers = append(out.Servers, viewServer(&last.Servers[i]))
		}
	}
	out.Problem = h.storeProblem(r.Context())
	out.Reachable, out.GeneratedMS = out.Problem == "", time.Now().UnixMilli()
	if calls := h.metrics.StoreCalls.LastMinute(); calls.Calls > 0 {
		out.Latency = &wire.StoreLatency{P50MS: millis(calls.P50), P99MS: millis(calls.P99), MaxMS: millis(calls.Max),
			Calls: int64(calls.Calls)}
	}
	return out, nil
}

// inspected returns the last inspection, and begins another one if that was long ago. It waits only if there was none; nil: there is still
// none.
func (i *storeInspector) inspected(ctx context.Context) *inspection {
	i.mu.Lock()
	if i.running == nil && (i.last == nil || time.Since(i.last.at) >= inspectInterval) {
		running := make(chan struct{})
		if i.work.Go(func(ctx context.Context) { i.inspect(ctx, running) }) {
			i.running = running
		}
	}
	last, running := i.last, i.running
	i.mu.Unlock()
	if last != nil || running == nil {
		return last
	}
	select {
	case <-running:
	case <-ctx.Done():
		return nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.last
}

// inspect asks the servers.
func (i *storeInspector) inspect(ctx context.Context, running chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	next := &inspection{Inspection: i.store.Inspect(ctx), at: time.Now()}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.last, i.running = next, nil
	close(running)
}

// close waits for the inspection in progress.
func (i *storeInspector) close() { i.work.Close() }

func viewServer(s *store.Server) wire.StoreServer {
	v := wire.StoreServer{
		Address: s.Address, Role: "replica", Slots: s.Slots, Healthy: s.Healthy, Version: s.Version, UsedMemory: s.Used, MaxMemory: s.Max,
		Policy:        s.Policy,
		UptimeSeconds: int64(s.Uptime.Seconds()), Clients: s.Clients,
	}
	if s.Primary {
		v.Role = "primary"
	}
	if s.Lag >= 0 {
		v.LagBytes = &s.Lag
	}
	if s.Ping > 0 {
		ping := millis(s.Ping)
		v.PingMS = &ping
	}
	return v
}

// millis returns a duration in milliseconds, with microseconds.
func millis(d time.Duration) float64 { return math.Round(float64(d)/float64(time.Microsecond)) / 1e3 }
