package dispatch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/waiting"

	"github.com/lingua-scheduler/lingua/internal/health"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/pick"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var timing = store.Timing{
	Presence: 15 * time.Second, ReservedTTL: 5 * time.Second, Attempt: 15 * time.Second, Job: 30 * time.Second, Retention: 5 * time.Minute,
}

// harness is a dispatcher and a node registry over a memory store, with a fake transport to the nodes.
type harness struct {
	t          *testing.T
	mem        *memstore.Store
	store      *faultyStore
	fleet      *fleet.Fleet
	dispatcher *dispatch.Dispatcher
	registry   *nodes.Registry
	transport  *fakeTransport
	picker     *pick.Picker
	metrics    *telemetry.Metrics
	log        *slog.Logger
	warnings   logBuffer
	outcomes   fakeOutcomes
	// unavailable marks the services that nodes report as unavailable.
	unavailable *health.UnavailableWorker
	// stopFollower stops following the store: from then on the fleet becomes stale.
	stopFollower func()
}

// offerBus passes offers to other dispatchers as the bus does.
type offerBus func(ctx context.Context, to core.InstanceID, o waiting.Offer) error

func (b offerBus) Send(ctx context.Context, to core.InstanceID, _ bus.Kind, _ time.Duration, body any) error {
	return b(ctx, to, body.(waiting.Offer))
}

// receiveOffer gives an offer of another instance to a dispatcher.
func receiveOffer(d *dispatch.Dispatcher, o waiting.Offer) {
	body, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	if err := d.Handlers()["wait_offer"].Handle(context.Background(), &bus.Message{Body: body}); err != nil {
		panic(err)
	}
}

// logBuffer has what was logged.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *logBuffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(line)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// runTest runs a test with a harness of its own, on a fake clock.
func runTest(t *testing.T, fn func(h *harness)) { runWith(t, nil, fn) }

func runWith(t *testing.T, change func(*dispatch.Config), fn func(h *harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(timing)
		h := &harness{t: t, mem: mem, store: newFaultyStore(mem), fleet: fleet.New(timing.Presence), transport: newFakeTransport()}
		policy := pick.Policy{SampleK: 20, ScanMax: 512, StaleAfter: timing.Presence, Shuffle: true, CPUMax: .95, GPUMax: .98,
			MemoryMax: .95}
		cfg := dispatch.Config{
			Instance: "i-test", DecideWithin: 400 * time.Millisecond, ACKTimeout: 2 * time.Second,
			AttemptTimeout: timing.Attempt, JobTimeout: timing.Job, MaxRetry: 2,
			DeliverWithin: timing.ReservedTTL,
		}
		if change != nil {
			change(&cfg)
		}
		cfg.Shared = cfg.Shared || cfg.Bus != nil
		log := slog.New(slog.NewTextHandler(&h.warnings, &slog.HandlerOptions{Level: slog.LevelWarn}))
		m := telemetry.New()
		h.picker, h.metrics, h.log = pick.New(h.fleet, policy, nil), m, log
		h.dispatcher = dispatch.New(cfg, h.store, h.fleet, h.picker, h.transport, &h.outcomes, m, log)
		h.fleet.OnLost(h.dispatcher.ConnectionChanged)
		defer h.startMarking()()
		h.registry = nodes.New(nodes.Config{Instance: "i-test", Unavailable: h.unavailable}, h.store, h.fleet, nodes.JobsOf(h.dispatcher),
			m, log)
		follower := &fleet.Follower{Fleet: h.fleet, Nodes: mem, Marks: mem, Log: log, OnSilent: h.registry.MoveJobsOfSilent}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			follower.Run(ctx)
			close(done)
		}()
		h.stopFollower = func() {
			cancel()
			<-done
		}
		defer func() {
			h.dispatcher.Close()
			h.stopFollower()
			h.wantNoJobsCounted()
		}()
		fn(h)
	})
}

// wantNoJobsCounted checks that no job counts on a node as one of this instance, after all have ended or the dispatchers were closed.
func (h *harness) wantNoJobsCounted() {
	h.t.Helper()
	for n := range h.fleet.All() {
		h.fleet.Observe(n, 0, 0, h.fleet.Now())
		if count, _ := h.fleet.InFlight(n, h.fleet.Now()); count != 0 {
			h.t.Errorf("%d jobs count on %s after the end", count, n.ID())
		}
	}
}

// addNode registers a node that serves en↔zh.
func (h *harness) addNode(id string, slots int, change ...func(*core.Change)) {
	h.t.Helper()
	if err := h.register(id, slots, store.Activity{}, change...); err != nil {
		h.t.Fatalf("register %s: %v", id, err)
	}
}

func (h *harness) register(id string, slots int, a store.Activity, change ...func(*core.Change)) error {
	url := "http://127.0.0.1:9/" + id
	p := core.Change{Declaration: core.Declaration{MaxJobs: slots, Capability: core.Capability{Semantic: core.LangSet{"en", "zh"}}, Callback: url}}
	for _, c := range change {
		c(&p)
	}
	_, err := h.registry.Register(h.t.Context(), core.NodeID(id), p, nodes.Caller{}, a)
	return err
}

// heartbeat sends a heartbeat; nil means that it does not list jobs. It returns the jobs that the node should stop.
func (h *harness) heartbeat(id string, active []store.ActiveJob) []store.ActiveJob {
	h.t.Helper()
	beat, err := h.registry.Heartbeat(h.t.Context(), nodes.Heartbeat{
		Node: core.NodeID(id), Activity: store.Activity{Lists: active != nil, Active: active},
	})
	if err != nil {
		h.t.Fatalf("heartbeat %s: %v", id, err)
	}
	return beat.Cancel
}

// advance lets time pass while the named nodes send heartbeats every second, which list the jobs that they received
// and have not dropped.
func (h *harness) advance(d time.Duration, alive ...string) {
	h.t.Helper()
	for left := d; left > 0; left -= time.Second {
		time.Sleep(min(left, time.Second))
		for _, id := range alive {
			h.heartbeat(id, h.transport.heldBy(id))
		}
		synctest.Wait()
	}
}

func spec(change ...func(*core.Spec)) core.Spec {
	s := core.Spec{Request: "req-1", Session: "session-1", Direction: core.Direction{Src: "en", Tgt: "zh"}, AudioRef: "blob://a"}
	for _, c := range change {
		c(&s)
	}
	return s
}

func withRequestID(id string) func(*core.Spec) {
	return func(s *core.Spec) { s.Request = core.RequestID(id) }
}

// dispatch dispatches and fails the test if it is refused.
func (h *harness) dispatch(change ...func(*core.Spec)) dispatch.Placement {
	h.t.Helper()
	p, err := h.dispatcher.Dispatch(h.t.Context(), dispatch.Request{Spec: spec(change...)})
	if err != nil {
		h.t.Fatalf("dispatch: %v", err)
	}
	return p
}

// dispatchRefused dispatches and returns the refusal; it fails the test if there is none.
func (h *harness) dispatchRefused(change ...func(*core.Spec)) *wire.Error {
	h.t.Helper()
	p, err := h.dispatcher.Dispatch(h.t.Context(), dispatch.Request{Spec: spec(change...)})
	var e *wire.Error
	if !errors.As(err, &e) {
		h.t.Fatalf("dispatch: %+v, %v; want a refusal", p, err)
	}
	return e
}

func reportOf(p dispatch.Placement) dispatch.Report {
	return dispatch.Report{Job: p.Job, Holder: core.Holder{Attempt: p.Attempt, Node: p.Node}}
}

func (h *harness) ack(p dispatch.Placement) error {
	return h.dispatcher.Reports.Ack(h.t.Context(), reportOf(p))
}

func (h *harness) done(p dispatch.Placement) error {
	h.transport.drop(p)
	return h.dispatcher.Reports.Done(h.t.Context(), reportOf(p), []byte(`{"text_tgt":"x"}`))
}

func (h *harness) fail(p dispatch.Placement, reason core.Reason) error {
	h.transport.drop(p)
	return h.dispatcher.Reports.Fail(h.t.Context(), reportOf(p), reason, "")
}

func (h *harness) job(id core.JobID) *core.Job {
	h.t.Helper()
	j, err := h.dispatcher.Job(h.t.Context(), id)
	if err != nil {
		h.t.Fatalf("job %s: %v", id, err)
	}
	return j
}

// placementOf returns the current placement of a job.
func (h *harness) placementOf(id core.JobID) dispatch.Placement {
	j := h.job(id)
	return dispatch.Placement{Job: id, Node: j.Node, Attempt: j.Attempt}
}

func (h *harness) newPlacement(job core.JobID, node core.NodeID, attempt int) dispatch.Placement {
	return dispatch.Placement{Job: job, Node: node, Attempt: attempt}
}

func (h *harness) wantState(id core.JobID, state core.State, reason core.Reason) {
	h.t.Helper()
	if j := h.job(id); j.State != state || j.Reason != reason {
		h.t.Errorf("job is %s %q, want %s %q; history %+v", j.State, j.Reason, state, reason, j.History)
	}
}

func (h *harness) inFlight(id string) int {
	h.t.Helper()
	var o [1]store.Occupancy
	if err := h.mem.Probe(h.t.Context(), []core.NodeID{core.NodeID(id)}, o[:]); err != nil {
		h.t.Fatal(err)
	}
	return o[0].InFlight()
}

func (h *harness) wantFree(ids ...string) {
	h.t.Helper()
	for _, id := range ids {
		if n := h.inFlight(id); n != 0 {
			h.t.Errorf("%d slots of %s are taken, want none", n, id)
		}
	}
}

func wantCode(t *testing.T, err error, code wire.Code) {
	t.Helper()
	var e *wire.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Errorf("error %v, want %s", err, code)
	}
}

// fakeTransport is a transport that records deliveries and cancels, and fails on demand.
type fakeTransport struct {
	mu         sync.Mutex
	delivered  []wire.Assignment
	held       map[string]map[store.ActiveJob]bool
	errors     map[string]error         // the result of a delivery to a node
	onDelivery func(a *wire.Assignment) // called with each successful delivery
	cancels    []store.ActiveJob
}

func newFakeTransport() *fakeTransport {
	return &fakeTransport{held: make(map[string]map[store.ActiveJob]bool), errors: make(map[string]error)}
}

var errLost = errors.New("the connection broke after the request was sent")

// Deliver implements dispatch.Transport.
func (c *fakeTransport) Deliver(ctx context.Context, to *core.Node, a *wire.Assignment) error {
	c.mu.Lock()
	err := c.errors[a.NodeID]
	hook := c.onDelivery
	if err == nil || errors.Is(err, errLost) {
		c.delivered = append(c.delivered, *a)
		if c.held[a.NodeID] == nil {
			c.held[a.NodeID] = make(map[store.ActiveJob]bool)
		}
		c.held[a.NodeID][store.ActiveJob{Job: core.JobID(a.JobID), Attempt: a.AttemptID}] = true
	}
	c.mu.Unlock()
	if errors.Is(err, context.DeadlineExceeded) {
		<-ctx.Done()
		return ctx.Err()
	}
	if err == nil && hook != nil {
		hook(a)
	}
	if string(to.ID) != a.NodeID {
		return fmt.Errorf("assignment for %s went to %s", a.NodeID, to.ID)
	}
	return err
}

// Cancel implements dispatch.Transport.
func (c *fakeTransport) Cancel(_ context.Context, _ core.NodeID, job core.JobID, attempt int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancels = append(c.cancels, store.ActiveJob{Job: job, Attempt: attempt})
}

func (c *fakeTransport) failWith(node string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errors[node] = err
}

func (c *fakeTransport) deliveries() []wire.Assignment {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]wire.Assignment(nil), c.delivered...)
}

// heldBy returns the jobs that a node has received and not dropped.
func (c *fakeTransport) heldBy(node string) []store.ActiveJob {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := []store.ActiveJob{}
	for job := range c.held[node] {
		list = append(list, job)
	}
	return list
}

// drop makes a node drop a job.
func (c *fakeTransport) drop(p dispatch.Placement) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.held[string(p.Node)], store.ActiveJob{Job: p.Job, Attempt: p.Attempt})
}

// removeNode removes a node from the store.
func (h *harness) removeNode(id string) {
	h.t.Helper()
	if _, err := h.mem.Remove(h.t.Context(), store.RemoveParams{Node: core.NodeID(id)}); err != nil {
		h.t.Error(err)
	}
}

// ofSession makes a job an utterance of a session.
func ofSession(s *core.Spec) { s.Utterance = core.Utterance{Turn: 1, AudioMS: 600} }

// fakeOutcomes records the reported outcomes; the first fails reports fail.
type fakeOutcomes struct {
	mu       sync.Mutex
	fails    int
	reported []string
}

func (o *fakeOutcomes) AudioWanted(context.Context, *core.Job) {}

func (o *fakeOutcomes) NotifyEnded(context.Context, core.InstanceID, core.JobID) {}

func (o *fakeOutcomes) JobEnded(_ context.Context, job *core.Job, _ time.Time) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fails > 0 {
		o.fails--
		return store.ErrDown
	}
	o.reported = append(o.reported, job.State.String()+" "+string(job.Reason))
	return nil
}

// wantReported compares the reported outcomes. An outcome may be reported twice: an instance that finds the lease of an ended
// job reports it again.
func (o *fakeOutcomes) wantReported(t *testing.T, want ...string) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if diff := cmp.Diff(want, slices.Compact(slices.Clone(o.reported))); diff != "" {
		t.Errorf("reported outcomes (-want +got):\n%s", diff)
	}
}

// preferNode sets the preferred node.
func preferNode(id string) func(*core.Spec) {
	return func(s *core.Spec) { s.Options.PreferredNodeID = &id }
}

// otherInstance makes a dispatcher of another instance over the same store.
func (h *harness) otherInstance(change ...func(*dispatch.Config)) *dispatch.Dispatcher {
	h.t.Helper()
	return h.otherInstanceReporting(nil, change...)
}

// otherInstanceReporting makes a dispatcher of another instance that reports outcomes.
func (h *harness) otherInstanceReporting(to dispatch.Outcomes, change ...func(*dispatch.Config)) *dispatch.Dispatcher {
	h.t.Helper()
	cfg := dispatch.Config{
		Instance: "i-other", DecideWithin: 400 * time.Millisecond, ACKTimeout: 2 * time.Second,
		AttemptTimeout: timing.Attempt, JobTimeout: timing.Job, MaxRetry: 2, AudioGrace: time.Minute,
	}
	for _, c := range change {
		c(&cfg)
	}
	return dispatch.New(cfg, h.store, h.fleet, h.picker, h.transport, to, h.metrics, h.log)
}

// fenceTime is the time until which an instance may grant slots.
type fenceTime struct{ at atomic.Int64 }

func (f *fenceTime) set(t time.Time) { f.at.Store(t.UnixNano()) }

func (f *fenceTime) get() time.Time { return time.Unix(0, f.at.Load()) }

// dispatchUntilPlaced dispatches as a session does, in the background, and returns the job's id.
func (h *harness) dispatchUntilPlaced(change ...func(*core.Spec)) core.JobID {
	h.t.Helper()
	s := spec(change...)
	go func() { _, _ = h.dispatcher.Dispatch(h.t.Context(), dispatch.Request{Spec: s, UntilPlaced: true}) }()
	synctest.Wait()
	return s.Job()
}

// changeInStore changes a node in the store without a change of this instance's fleet.
func (h *harness) changeInStore(id core.NodeID, change func(*core.Node)) {
	h.t.Helper()
	status, err := store.ReadNode(h.t.Context(), h.mem, id)
	if err != nil {
		h.t.Fatal(err)
	}
	next := *status.Node
	change(&next)
	if _, err := h.mem.Heartbeat(h.t.Context(), store.HeartbeatParams{Node: id, Declared: &next, Known: status.Node}); err != nil {
		h.t.Fatal(err)
	}
}

// advanceWithoutList lets time pass while a node sends heartbeats that do not list its jobs.
func (h *harness) advanceWithoutList(d time.Duration, id string) {
	h.t.Helper()
	for range d / time.Second {
		time.Sleep(time.Second)
		h.heartbeat(id, nil)
		synctest.Wait()
	}
}

// acknowledge sends the ACK of a job's node.
func (h *harness) acknowledge(p dispatch.Placement) dispatch.Placement {
	h.t.Helper()
	if err := h.ack(p); err != nil {
		h.t.Fatal(err)
	}
	return p
}

// dispatchAcknowledged dispatches a job on an instance, and its node acknowledges it there.
func (h *harness) dispatchAcknowledged(on *dispatch.Dispatcher, s core.Spec) dispatch.Placement {
	h.t.Helper()
	p, err := on.Dispatch(h.t.Context(), dispatch.Request{Spec: s})
	if err != nil {
		h.t.Fatal(err)
	}
	if err := on.Reports.Ack(h.t.Context(), reportOf(p)); err != nil {
		h.t.Fatal(err)
	}
	return p
}
