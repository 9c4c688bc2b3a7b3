package waiting

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/bench/stats"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
	"github.com/lingua-scheduler/lingua/test/redistest"
)

// commandsIn returns how many commands Redis runs in a time.
func (c *cluster) commandsIn(d time.Duration) float64 {
	before := sum(c.redis.CommandStats())
	began := time.Now()
	run.Sleep(c.t.Context(), d)
	return float64(sum(c.redis.CommandStats())-before) / time.Since(began).Seconds()
}

func sum(counts map[string]int64) (all int64) {
	for name, n := range counts {
		if name != "info" {
			all += n
		}
	}
	return all
}

// TestWaitersDoNotPoll counts the commands of Redis while the fleet is full and different numbers of requests wait: they do not depend on the number.
func TestWaitersDoNotPoll(t *testing.T) {
	besideOthers(t)
	c := startCluster(t, 8, [2]int{1, 1}, time.Minute)
	for range c.slots {
		if r, err := c.dispatch(t.Context(), 0, other, 0); err != nil || r.refusal != "" {
			t.Fatal(r, err)
		}
	}
	lasts := min(duration()/2, 5*time.Second)
	run.Sleep(t.Context(), time.Second)
	rates := []float64{c.commandsIn(lasts)}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	counts := []int{200, 2000}
	if !judged() {
		counts = []int{20, 200}
	}
	started := 0
	for _, n := range counts {
		for ; started < n; started++ {
			instance, tenant := started%3, fmt.Sprintf("t%d", started%20)
			running.Go(func() { _, _ = c.dispatch(ctx, instance, tenant, time.Minute) })
		}
		c.awaitWaiting(n)
		rates = append(rates, c.commandsIn(lasts))
	}
	t.Logf("commands a second with 0, %v waiters: %.0f", counts, rates)
	if rates[2] > 1.5*rates[1]+100 {
		t.Errorf("ten times as many waiters cost %.0f commands a second instead of %.0f", rates[2], rates[1])
	}
}

// awaitWaiting waits until so many requests are in the queue.
func (c *cluster) awaitWaiting(n int) {
	c.t.Helper()
	for {
		waiting, err := c.redis.Do("ZCARD", "lingua:v1:wait:{pool:}:line")
		if err != nil {
			c.t.Fatal(err)
		}
		if waiting == int64(n) {
			return
		}
		if !run.Sleep(c.t.Context(), 50*time.Millisecond) {
			c.t.Fatalf("%v requests wait, want %d", waiting, n)
		}
	}
}

// TestCostOfAJobThatDoesNotWait counts the commands that waiting adds to jobs of which none waits: readings of which classes wait.
func TestCostOfAJobThatDoesNotWait(t *testing.T) {
	besideOthers(t)
	// A busy machine is slow to free a slot: there are more slots than jobs, unless the figures are judged.
	c := startCluster(t, 64, [2]int{1, 1}, 5*time.Millisecond)
	jobs := 120
	if judged() {
		jobs = 2000
	}
	for _, at := range []int{1, 16} {
		before := c.redis.CommandStats()
		var running sync.WaitGroup
		for n := range at {
			running.Go(func() {
				for range jobs / at {
					if r, err := c.dispatch(t.Context(), n%3, other, 0); err != nil || r.refusal != "" {
						t.Error(r, err)
					}
					run.Sleep(t.Context(), 5*time.Millisecond)
				}
			})
		}
		running.Wait()
		run.Sleep(t.Context(), 200*time.Millisecond)
		after := c.redis.CommandStats()
		added := float64(after["hkeys"]-before["hkeys"]) / float64(jobs)
		t.Logf("%d at a time: %.2f commands more for each job", at, added)
		if added > 2 {
			t.Errorf("%.2f commands more for each job", added)
		}
	}
}

// TestCostOfAQueue measures a queue with many waiters: how long its calls take, for the caller and in Redis, and how many commands they run.
func TestCostOfAQueue(t *testing.T) {
	waiters, calls := 500, 100
	if judged() {
		waiters, calls = 10_000, 500
	}
	server := redistest.Start(t)
	address, err := redisstore.ParseAddress(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	for _, shape := range []struct {
		name             string
		tenants, classes int
	}{{"one tenant, one class", 1, 1}, {"100 tenants, one class", 100, 1}, {"100 tenants, 16 classes", 100, 16}} {
		s, err := redisstore.Open(t.Context(), redisstore.Options{
			Address: address, Prefix: strings.ReplaceAll(shape.name, " ", "-"), Timeout: 10 * time.Second, Log: slog.New(slog.DiscardHandler),
			Timing: store.Timing{Presence: 15 * time.Second, ReservedTTL: 5 * time.Second, Attempt: 30 * time.Second, Job: time.Minute, Retention: time.Minute},
		})
		if err != nil {
			t.Fatal(err)
		}
		q := &queueBench{t: t, server: server, store: s, tenants: shape.tenants, classes: shape.classes}
		for range waiters {
			q.enqueue()
		}
		t.Logf("%d waiters, %s: enqueue %s, offer %s, dequeue %s", waiters, shape.name, q.measure(calls, q.enqueue), q.measure(calls, q.offer), q.measure(len(q.won), q.dequeue))
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// queueBench makes calls to one queue.
type queueBench struct {
	t                *testing.T
	server           *redistest.Server
	store            *redisstore.Store
	tenants, classes int
	made             int
	won              []fairqueue.Waiter
}

func (q *queueBench) class(n int) string { return fmt.Sprintf("class-%02d", n%q.classes) }

func (q *queueBench) enqueue() {
	clock, err := q.store.Clock(q.t.Context(), store.ClockKey{})
	if err == nil {
		now := clock.UnixMilli()
		q.made++
		_, err = q.store.Enqueue(q.t.Context(), "", fairqueue.EnqueueParams{
			Waiter: fairqueue.Waiter{
				ID: fmt.Sprintf("job-%d", q.made), Class: q.class(q.made), Tenant: fmt.Sprintf("tenant-%d", q.made%q.tenants), Instance: "i-1", Since: now, Deadline: now + 60_000,
			},
			Requirements: `{"src":"en","tgt":"es"}`, Weight: 100, MaxWaiting: 100_000, Repeat: true,
		})
	}
	if err != nil {
		q.t.Fatal(err)
	}
}

func (q *queueBench) offer() {
	classes := make([]string, q.classes)
	for i := range classes {
		classes[i] = q.class(i)
	}
	r, err := q.store.Offer(q.t.Context(), "", 1, classes)
	if err != nil || len(r.Offers) != 1 {
		q.t.Fatal(r, err)
	}
	q.won = append(q.won, r.Offers[0].Waiter)
}

func (q *queueBench) dequeue() {
	w := q.won[0]
	q.won = q.won[1:]
	if err := q.store.Settle(q.t.Context(), "", w, fairqueue.Served); err != nil {
		q.t.Fatal(err)
	}
}

// beatEvery is after how many measured calls the instance says that it is alive.
const beatEvery = 10

// measure makes calls, and describes what they cost.
func (q *queueBench) measure(calls int, call func()) string {
	took := make([]time.Duration, calls)
	var ran int64
	for from := 0; from < calls; from += beatEvery {
		if _, err := q.store.Beat(q.t.Context(), "", "i-1"); err != nil { // otherwise it would be taken for dead
			q.t.Fatal(err)
		}
		before := sum(q.server.CommandStats())
		for i := from; i < min(from+beatEvery, calls); i++ {
			began := time.Now()
			call()
			took[i] = time.Since(began)
		}
		ran += sum(q.server.CommandStats()) - before
	}
	commands := float64(ran) / float64(calls)
	return fmt.Sprintf("%v (p99 %v, %.0f commands)", stats.Median(took).Round(time.Microsecond), stats.Percentile(took, 0.99).Round(time.Microsecond), commands)
}
