package health_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/health"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/journal"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

const (
	maxMarks = 1024 // as in the worker
	markers  = 4
)

// workerHarness is a worker over a memory store.
type workerHarness struct {
	t       *testing.T
	mem     *memstore.Store
	store   *slowStore
	fleet   *fleet.Fleet
	metrics *telemetry.Metrics
	catalog *refreshes
	log     *bytes.Buffer
	options health.UnavailableOptions
	worker  *health.UnavailableWorker
	nodes   map[core.NodeID]*core.Node
	stop    func() // ends Run and waits for it
}

// runWorker runs a test with a worker of its own, on a fake clock. The worker has not started.
func runWorker(t *testing.T, fn func(h *workerHarness)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(store.Timing{Presence: time.Hour, ReservedTTL: time.Second, Attempt: time.Second, Job: time.Second, Retention: time.Second})
		h := &workerHarness{
			t: t, mem: mem, store: &slowStore{MarkStore: mem}, fleet: fleet.New(time.Hour), metrics: telemetry.New(), catalog: new(refreshes),
			log: new(bytes.Buffer), nodes: make(map[core.NodeID]*core.Node), stop: func() {},
		}
		recorder := journal.NewEvents("i-1", h.metrics.EventsDropped, slog.New(slog.DiscardHandler))
		h.options = health.UnavailableOptions{
			MarkFor: time.Minute, Debounce: 5 * time.Second, Limit: 3, Window: 10 * time.Second, Store: h.store, Fleet: h.fleet, Catalog: h.catalog,
			Events: recorder, Metrics: h.metrics, Log: slog.New(slog.NewTextHandler(h.log, nil)),
		}
		h.worker = health.NewUnavailableWorker(h.options)
		ctx, cancel := context.WithCancel(t.Context())
		written := make(chan struct{})
		go func() {
			recorder.Run(ctx, mem)
			close(written)
		}()
		defer func() {
			h.stop()
			cancel()
			<-written
		}()
		fn(h)
	})
}

// start runs the worker until the test ends, or stop is called.
func (h *workerHarness) start() {
	ctx, cancel := context.WithCancel(h.t.Context())
	done := make(chan struct{})
	go func() {
		h.worker.Run(ctx)
		close(done)
	}()
	h.stop = func() {
		cancel()
		<-done
	}
}

// add registers nodes.
func (h *workerHarness) add(ids ...core.NodeID) {
	h.t.Helper()
	for _, id := range ids {
		declared := core.Node{ID: id, Declaration: core.Declaration{Health: core.HealthReady, MaxJobs: 1, Callback: "http://127.0.0.1:9/", Tenant: "acme"}}
		declared.Capability = core.Capability{Semantic: core.NewLangSet("en", "zh"), AnyPair: true, Services: []core.Service{{ID: "asr", Version: "1", Type: "asr", Status: core.ServiceReady}}}
		r, err := h.mem.Register(h.t.Context(), store.RegisterParams{Node: declared, Load: core.UnknownLoad})
		if err != nil {
			h.t.Fatal(err)
		}
		h.nodes[id] = r.Node
		h.fleet.Update(r.NodeStatus)
	}
}

// report enqueues a report of a node about service@version, or about a service.
func (h *workerHarness) report(id core.NodeID, name string) {
	service, version, _ := strings.Cut(name, "@")
	n := h.nodes[id]
	h.worker.Enqueue(core.UnavailableService{
		Node: id, Tenant: n.Tenant, Epoch: n.Epoch, NodeVersion: n.Version, Service: service, Version: version, Reason: core.UnavailableInstalling,
	})
}

// marks lists what is marked on nodes, as node/service@version.
func (h *workerHarness) marks(ids ...core.NodeID) []string {
	h.t.Helper()
	synctest.Wait()
	marks, err := h.mem.Marked(h.t.Context(), ids...)
	if err != nil {
		h.t.Fatal(err)
	}
	names := []string{}
	for _, m := range marks {
		names = append(names, strings.TrimSuffix(string(m.Node)+"/"+m.Service+"@"+m.Version, "@"))
	}
	slices.Sort(names)
	return names
}

func (h *workerHarness) wantMarks(want []string, ids ...core.NodeID) {
	h.t.Helper()
	if diff := cmp.Diff(want, h.marks(ids...)); diff != "" {
		h.t.Errorf("marks (-want +got):\n%s", diff)
	}
}

// wantDropped compares the counters of reports that marked nothing, or too little.
func (h *workerHarness) wantDropped(want map[string]float64) {
	h.t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, series(h.t, h.metrics.Registry, "scheduler_model_na_dropped_total")); diff != "" {
		h.t.Errorf("dropped (-want +got):\n%s", diff)
	}
}

func (h *workerHarness) wantSeries(name string, want map[string]float64) {
	h.t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, series(h.t, h.metrics.Registry, name)); diff != "" {
		h.t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// events returns the details of the events of unavailable services.
func (h *workerHarness) events() []string {
	h.t.Helper()
	synctest.Wait()
	page, err := journal.EventLog(h.mem).Read(h.t.Context(), store.ReadLogParams{Limit: 1000})
	if err != nil {
		h.t.Fatal(err)
	}
	details := []string{}
	for _, e := range page.Entries {
		if e.Kind != store.EventServiceUnavailable || e.Tenant != "acme" || e.Node == "" {
			h.t.Errorf("event %+v", e)
		}
		details = append(details, e.Detail)
	}
	return details
}

// refreshes records what the worker asks the catalog for.
type refreshes struct {
	mu    sync.Mutex
	names []string
}

func (r *refreshes) Refresh(service string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.names = append(r.names, service)
}

func (r *refreshes) list() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.names)
}

// slowStore is a store whose calls fail, or wait until they are let go or their context ends.
type slowStore struct {
	health.MarkStore
	mu   sync.Mutex
	down bool
	hold chan struct{} // nil: calls do not wait
	held int           // calls that wait
}

// set makes calls fail, or wait until hold is closed.
func (s *slowStore) set(down bool, hold chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down, s.hold = down, hold
}

func (s *slowStore) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

func (s *slowStore) Allow(ctx context.Context, p store.AllowParams) (bool, error) {
	s.mu.Lock()
	down, hold := s.down, s.hold
	s.held++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.held--
		s.mu.Unlock()
	}()
	if down {
		return false, store.ErrDown
	}
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return false, store.ErrDown
		}
	}
	return s.MarkStore.Allow(ctx, p)
}
