package scale

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/bench/inprocess"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
	"github.com/lingua-scheduler/lingua/test/redistest"
)

// BenchmarkWaitingCost measures what an utterance that waits costs Redis beside what every utterance costs: its place in the queue, the offer of
// a slot and the end of its wait.
func BenchmarkWaitingCost(b *testing.B) {
	for b.Loop() {
		rows := [][]string{{"waiters in the queue", "commands", "of them scripts", "Redis, µs of a core", "so one core does"}}
		for _, waiters := range []int{100, 10_000} {
			c := newWaitingCost(b)
			c.measure(b, waiters)
			rows = append(rows, c.row(waiters))
		}
		printTable(os.Stdout, rows)
	}
	b.ReportMetric(0, "ns/op")
}

// waitingCost is what utterances that wait cost a server.
type waitingCost struct {
	server     *redistest.Server
	store      store.Store
	next       atomic.Int64
	served     int
	commands   int64
	scripts    int64
	cpuSeconds float64
}

func newWaitingCost(b *testing.B) *waitingCost {
	b.Helper()
	c := &waitingCost{server: redistest.Start(b)}
	s, _ := inprocess.Start(b, 0, 0, true, func(cfg *config.Config) { cfg.Store = c.server.URL() })
	c.store = s.Store
	return c
}

const (
	costServed  = 20_000 // utterances that are counted
	costClients = 8
	costServes  = 6 // classes that a node can serve
)

// measure lets utterances wait and be served one by one, beside so many that wait all the time.
func (c *waitingCost) measure(b *testing.B, waiters int) {
	b.Helper()
	enqueue := func(ctx context.Context) error { return c.enqueue(ctx, waiters) }
	c.run(b, waiters, enqueue)
	before, began := c.server.CommandStats(), c.cpu(b)
	c.run(b, costServed, func(ctx context.Context) error {
		if err := enqueue(ctx); err != nil {
			return err
		}
		return c.serve(ctx)
	})
	c.cpuSeconds = c.cpu(b) - began
	for name, n := range c.server.CommandStats() {
		if name == "info" {
			continue
		}
		c.commands += n - before[name]
		if name == "evalsha" {
			c.scripts = n - before[name]
		}
	}
	c.served = costServed
}

// run calls do so many times, from several clients.
func (c *waitingCost) run(b *testing.B, times int, do func(context.Context) error) {
	b.Helper()
	var clients sync.WaitGroup
	for client := range costClients {
		clients.Go(func() {
			for i := client; i < times; i += costClients {
				if err := do(b.Context()); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	clients.Wait()
	if b.Failed() {
		b.FailNow()
	}
}

// enqueue adds an utterance of a random class and tenant.
func (c *waitingCost) enqueue(ctx context.Context, waiters int) error {
	clock, err := c.store.Clock(ctx, store.ClockKey{})
	if err != nil {
		return err
	}
	now := clock.UnixMilli()
	n := c.next.Add(1)
	class := fmt.Sprintf("%016d", rand.IntN(len(directionPlans)))
	r, err := c.store.Enqueue(ctx, "", fairqueue.EnqueueParams{
		Waiter: fairqueue.Waiter{
			ID: fmt.Sprintf("job-%d", n), Class: class, Tenant: string(tenantPlans[rand.IntN(len(tenantPlans))].id), Instance: fmt.Sprint("i-", n%instanceCount),
			Since: now, Deadline: now + 3600*waitLimit,
		},
		Requirements: class, Weight: fairqueue.WeightScale, MaxWaiting: 4 * (waiters + costClients),
	})
	if err == nil && r.Verdict != fairqueue.Queued {
		err = fmt.Errorf("the queue answered %d", r.Verdict)
	}
	return err
}

// serve does what the release of a slot does: it reads which classes are open, and offers the slot to a waiter, which takes it.
func (c *waitingCost) serve(ctx context.Context) error {
	if _, err := c.store.OpenClasses(ctx, nil, ""); err != nil {
		return err
	}
	classes := make([]string, 0, costServes)
	for _, i := range rand.Perm(len(directionPlans))[:costServes] {
		classes = append(classes, fmt.Sprintf("%016d", i))
	}
	r, err := c.store.Offer(ctx, "", 1, classes)
	if err != nil {
		return err
	}
	for _, o := range r.Offers {
		if err := c.store.Settle(ctx, "", o.Waiter, fairqueue.Served); err != nil {
			return err
		}
	}
	return nil
}

// cpu returns the CPU time that the server has used, in seconds.
func (c *waitingCost) cpu(b *testing.B) (seconds float64) {
	b.Helper()
	reply, err := c.server.Do("INFO", "cpu")
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(fmt.Sprint(reply)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name != "used_cpu_user" && name != "used_cpu_sys" {
			continue
		}
		x, err := strconv.ParseFloat(value, 64)
		if err != nil {
			b.Fatal(err)
		}
		seconds += x
	}
	return seconds
}

func (c *waitingCost) row(waiters int) []string {
	each := float64(c.served)
	us := time.Duration(c.cpuSeconds * float64(time.Second) / each).Microseconds()
	return []string{
		thousands(float64(waiters)), fmt.Sprintf("%.1f", float64(c.commands)/each), fmt.Sprintf("%.1f", float64(c.scripts)/each), fmt.Sprint(us),
		thousands(each / c.cpuSeconds),
	}
}
