package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
)

// waitingBehaviours is the specification of Waiting. Package fairqueue has the tests of its order and its fairness.
var waitingBehaviours = []behaviour{
	{"the waiter of a tenant with the earliest deadline is offered the first slot", onQueue(testEarliestDeadlineFirst)},
	{"the deadlines of a tenant are compared in a limited number of classes", onQueue(testMostUrgentClass)},
	{"tenants are served in turns by their weights", onQueue(testTurnsByWeight)},
	{"a tenant that waits in many classes gets no more than one that waits in one of them", onQueue(testManyClasses)},
	{"a slot is offered only to waiters of the classes that the node can serve", onQueue(testOfferedClasses)},
	{"a waiter is added once, however often that is repeated", onQueue(testEnqueueRepeated)},
	{"a waiter whose deadline has passed is neither added nor offered a slot", onQueue(testExpiredWaiters)},
	{"a queue that is full refuses only tenants that have their part of it", onQueue(testQueueFull)},
	{"a waiter that cannot be served in time is refused", onQueue(testCannotBeMet)},
	{"an offer that is not used is taken back, and its waiter has its place again", onQueue(testOfferLapses)},
	{"an offer that is returned leaves the waiter its place", onQueue(testOfferReturned)},
	{"a waiter that was removed is not offered a slot", onQueue(testDequeue)},
	{"the waiters of an instance that is silent are removed", onQueue(testSilentInstance)},
	{"pools have queues of their own", onQueue(testQueuesOfPools)},
	{"the classes in which somebody waits are listed, with their requirements", onQueue(testOpenClasses)},
	{"a view has pages", onQueue(testViewPages)},
	{"a call after a missed deadline changes nothing", onQueue(testLateWaiting)},
}

// queueHarness is a Harness with the calls that tests of queues share.
type queueHarness struct {
	*Harness
	now *int64 // the clock of the queues in Unix ms, if the store has a way to stop it
}

func onQueue(test func(t *testing.T, h queueHarness)) func(t *testing.T, h *Harness) {
	return func(t *testing.T, h *Harness) {
		q := queueHarness{Harness: h}
		if h.StopQueueClock != nil {
			now := time.Now().UnixMilli()
			q.now = &now
			h.StopQueueClock(now)
		}
		test(t, q)
	}
}

// pass lets time pass on the clock of the queues.
func (h queueHarness) pass(d time.Duration) {
	if h.now == nil {
		h.Wait(d)
		return
	}
	*h.now += d.Milliseconds()
	h.StopQueueClock(*h.now)
}

// waiter is a waiter of an instance that waits for a minute.
func (h queueHarness) waiter(t *testing.T, id, class, tenant string) fairqueue.Waiter {
	t.Helper()
	clock, err := h.Store.Clock(t.Context(), store.ClockKey{})
	if err != nil {
		t.Fatal(err)
	}
	now := clock.UnixMilli()
	if h.now != nil {
		now = *h.now
	}
	return fairqueue.Waiter{ID: id, Class: class, Tenant: tenant, Instance: "i-1", Since: now, Deadline: now + 60_000}
}

// tryEnqueue adds a waiter of a tenant with a weight to the queue without a pool.
func (h queueHarness) tryEnqueue(t *testing.T, w fairqueue.Waiter, weight int) fairqueue.EnqueueResult {
	t.Helper()
	r, err := h.Store.Enqueue(t.Context(), "",
		fairqueue.EnqueueParams{Waiter: w, Weight: weight, MaxWaiting: 1000, Requirements: "requires " + w.Class})
	if err != nil {
		t.Fatalf("enqueue %s: %v", w.ID, err)
	}
	return r
}

// enqueue adds waiters that must be accepted.
func (h queueHarness) enqueue(t *testing.T, waiters ...fairqueue.Waiter) {
	t.Helper()
	for _, w := range waiters {
		if r := h.tryEnqueue(t, w, 1); r.Verdict != fairqueue.Queued {
			t.Fatalf("enqueue %s: %+v", w.ID, r)
		}
	}
}

// offer offers slots and returns the waiters.
func (h queueHarness) offer(t *testing.T, n int, classes ...string) []fairqueue.Waiter {
	t.Helper()
	r, err := h.Store.Offer(t.Context(), "", n, classes)
	if err != nil {
		t.Fatalf("offer: %v", err)
	}
	waiters := make([]fairqueue.Waiter, len(r.Offers))
	for i, o := range r.Offers {
		waiters[i] = o.Waiter
	}
	return waiters
}

func (h queueHarness) settle(t *testing.T, w fairqueue.Waiter, how fairqueue.Settlement) {
	t.Helper()
	if err := h.Store.Settle(t.Context(), "", w, how); err != nil {
		t.Fatalf("settle %s: %v", w.ID, err)
	}
}

// wantOffered offers slots and compares the winners.
func (h queueHarness) wantOffered(t *testing.T, n int, class string, want ...fairqueue.Waiter) {
	t.Helper()
	if diff := cmp.Diff(want, h.offer(t, n, class), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("offered (-want +got):\n%s", diff)
	}
}

func (h queueHarness) beat(t *testing.T, instance core.InstanceID) fairqueue.BeatResult {
	t.Helper()
	r, err := h.Store.Beat(t.Context(), "", instance)
	if err != nil {
		t.Fatalf("beat: %v", err)
	}
	return r
}

func testEarliestDeadlineFirst(t *testing.T, h queueHarness) {
	late, early, middle := h.waiter(t, "job-1", "x", "a"), h.waiter(t, "job-2", "x", "a"), h.waiter(t, "job-3", "x", "a")
	early.Deadline -= 2000
	middle.Deadline -= 1000
	h.enqueue(t, late, early, middle)
	h.wantOffered(t, 2, "x", early, middle)
	h.settle(t, early, fairqueue.Served)
	h.settle(t, middle, fairqueue.Served)
	h.wantOffered(t, 2, "x", late)
}

func testTurnsByWeight(t *testing.T, h queueHarness) {
	for i := range 40 {
		h.tryEnqueue(t, h.waiter(t, fmt.Sprintf("a-%d", i), "x", "a"), 3)
		h.tryEnqueue(t, h.waiter(t, fmt.Sprintf("b-%d", i), "x", "b"), 1)
	}
	won := make(map[string]int)
	for _, w := range h.offer(t, 20, "x") {
		won[w.Tenant]++
	}
	if diff := cmp.Diff(map[string]int{"a": 15, "b": 5}, won); diff != "" {
		t.Errorf("slots by tenant (-want +got):\n%s", diff)
	}
}

func testOfferedClasses(t *testing.T, h queueHarness) {
	x, y := h.waiter(t, "job-1", "x", "a"), h.waiter(t, "job-2", "y", "a")
	h.enqueue(t, x, y)
	h.wantOffered(t, 5, "z")
	h.wantOffered(t, 5, "y", y)
	h.settle(t, y, fairqueue.Served)
	if got := h.offer(t, 5, "x", "y", "z"); len(got) != 1 || got[0] != x {
		t.Errorf("offered %+v, want job-1", got)
	}
}

func testEnqueueRepeated(t *testing.T, h queueHarness) {
	w := h.waiter(t, "job-1", "x", "a")
	h.enqueue(t, w, w)
	if got := h.beat(t, "i-1").Waiters; got != 1 {
		t.Errorf("the instance has %d waiters, want 1", got)
	}
	h.settle(t, w, fairqueue.Left)
	w = h.waiter(t, "job-2", "x", "a")
	h.enqueue(t, w)
	h.wantOffered(t, 5, "x", w)
	h.enqueue(t, w) // it has an offer
	h.wantOffered(t, 5, "x")
}

func testExpiredWaiters(t *testing.T, h queueHarness) {
	w := h.waiter(t, "job-1", "x", "a")
	w.Deadline = w.Since - 1
	if r := h.tryEnqueue(t, w, 1); r.Verdict != fairqueue.Expired {
		t.Errorf("a waiter whose deadline has passed: %+v", r)
	}
	short := h.waiter(t, "job-2", "x", "a")
	short.Deadline = short.Since + 2*h.Slack.Milliseconds() + 100
	other := h.waiter(t, "job-3", "x", "a")
	h.enqueue(t, short, other)
	h.pass(100*time.Millisecond + 3*h.Slack)
	h.enqueue(t, other) // its instance is not silent
	h.wantOffered(t, 2, "x", other)
}

func testQueueFull(t *testing.T, h queueHarness) {
	add := func(tenant string, i int) fairqueue.Verdict {
		h.beat(t, "i-1") // a call that is refused does not say that the instance is alive
		r, err := h.Store.Enqueue(t.Context(), "", fairqueue.EnqueueParams{
			Waiter: h.waiter(t, fmt.Sprintf("%s-%d", tenant, i), "x", tenant), Weight: 1, MaxWaiting: 10,
		})
		if err != nil {
			t.Fatal(err)
		}
		return r.Verdict
	}
	counts := make(map[string]int)
	for i := range 30 {
		if add("a", i) == fairqueue.Queued {
			counts["a"]++
		}
	}
	for i := range 30 {
		if add("b", i) == fairqueue.Queued {
			counts["b"]++
		}
	}
	if diff := cmp.Diff(map[string]int{"a": 10, "b": 5}, counts); diff != "" {
		t.Errorf("accepted waiters (-want +got):\n%s", diff)
	}
	if add("a", 99) != fairqueue.QueueFull {
		t.Error("the tenant that has its part was not refused")
	}
}

func testCannotBeMet(t *testing.T, h queueHarness) {
	const interval = 50 * time.Millisecond
	for i := range 30 {
		h.enqueue(t, h.waiter(t, fmt.Sprintf("job-%d", i), "x", "a"))
	}
	for range fairqueue.MinGrants {
		h.pass(interval)
		h.beat(t, "i-1")
		for _, w := range h.offer(t, 1, "x") {
			h.settle(t, w, fairqueue.Served)
		}
	}
	hasty := h.waiter(t, "job-99", "x", "b") // it has its turn soon
	hasty.Deadline = hasty.Since + 5000
	if r := h.tryEnqueue(t, hasty, 1); r.Verdict != fairqueue.Queued || r.EstimateMS < interval.Milliseconds() {
		t.Errorf("a waiter that has its turn soon: %+v", r)
	}
	behind := h.waiter(t, "job-98", "x", "a")
	behind.Deadline = behind.Since + 59_000 // behind none: it has the earliest deadline of its tenant
	if r := h.tryEnqueue(t, behind, 1); r.Verdict != fairqueue.Queued {
		t.Errorf("the waiter with the earliest deadline: %+v", r)
	}
	for i := range 30 {
		w := h.waiter(t, fmt.Sprintf("urgent-%d", i), "x", "a")
		w.Deadline = w.Since + 600
		r := h.tryEnqueue(t, w, 1)
		if r.Verdict == fairqueue.CannotBeMet {
			// the call may have been slow
			if left := w.Deadline - h.waiter(t, "", "", "").Since - h.Slack.Milliseconds(); r.EstimateMS <= left {
				t.Errorf("refused although it would wait %d ms, with %d ms left", r.EstimateMS, left)
			}
			return
		}
	}
	t.Error("30 waiters of 600 ms were accepted, with a slot every 50 ms")
}

func testOfferLapses(t *testing.T, h queueHarness) {
	first, second := h.waiter(t, "job-1", "x", "a"), h.waiter(t, "job-2", "x", "a")
	second.Deadline++
	h.enqueue(t, first, second)
	h.wantOffered(t, 1, "x", first)
	h.pass(fairqueue.OfferMS*time.Millisecond + h.Slack)
	if r := h.beat(t, "i-1"); !h.Repeats && (!r.Freed || r.Waiters != 2) {
		t.Errorf("beat: %+v, want two waiters, and that an offer was taken back", r)
	}
	h.wantOffered(t, 1, "x", first)
}

func testOfferReturned(t *testing.T, h queueHarness) {
	first, second := h.waiter(t, "job-1", "x", "a"), h.waiter(t, "job-2", "x", "a")
	second.Deadline++
	h.enqueue(t, first, second)
	h.wantOffered(t, 1, "x", first)
	h.settle(t, first, fairqueue.Returned)
	h.wantOffered(t, 2, "x", first, second)
	h.settle(t, first, fairqueue.Served)
	h.settle(t, first, fairqueue.Returned) // too late
	h.settle(t, second, fairqueue.Returned)
	h.wantOffered(t, 2, "x", second)
}

func testDequeue(t *testing.T, h queueHarness) {
	gone, offered, stays := h.waiter(t, "job-1", "x", "a"), h.waiter(t, "job-2", "x", "a"), h.waiter(t, "job-3", "x", "a")
	offered.Deadline, stays.Deadline = offered.Deadline+1, stays.Deadline+2
	h.enqueue(t, gone, offered, stays)
	h.settle(t, gone, fairqueue.Left)
	h.wantOffered(t, 1, "x", offered)
	h.settle(t, offered, fairqueue.Left)
	h.settle(t, fairqueue.Waiter{ID: "unknown", Class: "x", Tenant: "a", Instance: "i-1"}, fairqueue.Served)
	h.pass(fairqueue.OfferMS*time.Millisecond + h.Slack)
	h.enqueue(t, stays)
	h.wantOffered(t, 5, "x", stays)
	h.settle(t, stays, fairqueue.Served)
	if r := h.beat(t, "i-1"); r.Waiters != 0 {
		t.Errorf("the instance has %d waiters, want 0", r.Waiters)
	}
}

func testSilentInstance(t *testing.T, h queueHarness) {
	dead, alive := h.waiter(t, "job-1", "x", "a"), h.waiter(t, "job-2", "x", "b")
	dead.Instance, alive.Instance = "i-dead", "i-alive"
	h.enqueue(t, dead, alive)
	for range 8 {
		h.pass(fairqueue.SilenceMS * time.Millisecond / 4)
		h.beat(t, "i-alive")
	}
	if r := h.beat(t, "i-dead"); r.Waiters != 0 {
		t.Errorf("the silent instance has %d waiters, want 0", r.Waiters)
	}
	h.wantOffered(t, 5, "x", alive)
}

func testQueuesOfPools(t *testing.T, h queueHarness) {
	w := h.waiter(t, "job-1", "x", "a")
	for _, pool := range []core.PoolID{"p1", "p2"} {
		if _, err := h.Store.Enqueue(t.Context(), pool, fairqueue.EnqueueParams{Waiter: w, Weight: 1, MaxWaiting: 10}); err != nil {
			t.Fatal(err)
		}
	}
	h.wantOffered(t, 1, "x")
	r, err := h.Store.Offer(t.Context(), "p1", 5, []string{"x"})
	if err != nil || len(r.Offers) != 1 {
		t.Errorf("offered %+v, %v; want one waiter", r, err)
	}
	if err := h.Store.Settle(t.Context(), "p1", w, fairqueue.Served); err != nil {
		t.Fatal(err)
	}
	open, err := h.Store.OpenClasses(t.Context(), nil, "", "p1", "p2")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]map[string]string{nil, nil, {"x": ""}}, open, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("open classes (-want +got):\n%s", diff)
	}
}

// openClasses returns the classes in which somebody waits, with their requirements unless they are known.
func (h queueHarness) openClasses(t *testing.T, known ...string) map[string]string {
	t.Helper()
	open, err := h.Store.OpenClasses(t.Context(), func(_ core.PoolID, class string) bool { return slices.Contains(known, class) }, "")
	if err != nil {
		t.Fatal(err)
	}
	return open[0]
}

func testOpenClasses(t *testing.T, h queueHarness) {
	x, y := h.waiter(t, "job-1", "x", "a"), h.waiter(t, "job-2", "y", "a")
	h.enqueue(t, x, y)
	got := []map[string]string{h.openClasses(t, "x", "z")}
	h.wantOffered(t, 1, "y", y)
	got = append(got, h.openClasses(t))
	h.settle(t, y, fairqueue.Returned)
	got = append(got, h.openClasses(t, "x", "y"))
	h.settle(t, x, fairqueue.Left)
	h.settle(t, y, fairqueue.Left)
	got = append(got, h.openClasses(t))
	want := []map[string]string{{"x": "", "y": "requires y"}, {"x": "requires x"}, {"x": "", "y": ""}, {}}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func testViewPages(t *testing.T, h queueHarness) {
	want := make(map[string]int)
	for i := range 7 {
		for j := range i + 1 {
			class, tenant := fmt.Sprintf("x%d", i%3), fmt.Sprintf("t%d", i)
			h.enqueue(t, h.waiter(t, fmt.Sprintf("job-%d-%d", i, j), class, tenant))
			want[class+" "+tenant]++
		}
	}
	got := make(map[string]int)
	for p, pages := (fairqueue.ViewParams{Flows: 3, Waiters: 2}), 1; ; pages++ {
		v, err := h.Store.ViewQueue(t.Context(), "", p)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range v.Flows {
			got[f.Class+" "+f.Tenant] += f.Waiting
			if len(f.Waiters) != min(2, f.Waiting) || f.Weight != 1 || f.TenantWaiting != f.Waiting {
				t.Errorf("flow %+v", f)
			}
			p.After = f.Cursor
		}
		if !v.More {
			if pages != 3 {
				t.Errorf("%d pages, want 3", pages)
			}
			break
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("flows (-want +got):\n%s", diff)
	}
}

func testLateWaiting(t *testing.T, h queueHarness) {
	late := expiredContext(t)
	w := h.waiter(t, "job-1", "x", "a")
	if _, err := h.Store.Enqueue(late, "", fairqueue.EnqueueParams{Waiter: w, Weight: 1, MaxWaiting: 10}); err == nil {
		t.Error("enqueue: no error")
	}
	h.wantOffered(t, 1, "x")
	h.enqueue(t, w)
	if _, err := h.Store.Offer(late, "", 1, []string{"x"}); err == nil {
		t.Error("offer: no error")
	}
	if err := h.Store.Settle(late, "", w, fairqueue.Left); err == nil {
		t.Error("settle: no error")
	}
	h.wantOffered(t, 1, "x", w)
}
