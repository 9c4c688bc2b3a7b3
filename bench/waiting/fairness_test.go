package waiting

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/bench/stats"
	"github.com/lingua-scheduler/lingua/internal/run"
)

// The tenants: flood sends its requests to one instance, other to the two others.
const (
	flood = "flood"
	other = "other"
)

// clients is how many requests of the tenant other are sent at a time; flood sends ten times as many.
const clients = 40

// window is in how many grants shares are compared.
const window = 200

// maxWait is how long requests wait.
const maxWait = 10 * time.Second

// served is one answer to a tenant.
type served struct {
	tenant string
	result
}

// load sends requests of both tenants, so many at a time, for a while, and returns the answers in their order. Each client sends its next
// request when the last was answered.
func (c *cluster) load(flooding, others int, lasts time.Duration, send func(ctx context.Context, instance int, tenant string) (result, bool)) []served {
	c.t.Helper()
	ctx, stop := context.WithTimeout(c.t.Context(), lasts)
	defer stop()
	var mu sync.Mutex
	var all []served
	var running sync.WaitGroup
	client := func(instance int, tenant string) {
		running.Go(func() {
			for ctx.Err() == nil {
				if r, ok := send(ctx, instance, tenant); ok {
					mu.Lock()
					all = append(all, served{tenant, r})
					mu.Unlock()
				}
			}
		})
	}
	for range flooding {
		client(0, flood)
	}
	for n := range others {
		client(1+n%2, other)
	}
	running.Wait()
	slices.SortFunc(all, func(a, b served) int { return a.at.Compare(b.at) })
	return all
}

// waiting sends a request that waits.
func (c *cluster) waiting(ctx context.Context, instance int, tenant string) (result, bool) {
	r, err := c.dispatch(ctx, instance, tenant, maxWait)
	if err != nil && ctx.Err() == nil {
		c.t.Error(err)
	}
	return r, err == nil
}

// retrying sends a request that does not wait, again and again at random until it is placed.
func (c *cluster) retrying(ctx context.Context, instance int, tenant string) (result, bool) {
	began := time.Now()
	for {
		r, err := c.dispatch(ctx, instance, tenant, 0)
		r.took = time.Since(began)
		if err != nil {
			return r, false
		}
		if r.refusal == "" {
			return r, true
		}
		if !run.Sleep(ctx, time.Duration(rand.Int64N(int64(100*time.Millisecond)))) {
			return r, false
		}
	}
}

// shares returns the lowest and the highest share of flood in any window, and its share of all.
func shares(all []served) (lowest, highest, total float64) {
	var placed []bool
	for _, s := range all {
		if s.refusal == "" {
			placed = append(placed, s.tenant == flood)
		}
	}
	count := func(part []bool) (n int) {
		for _, is := range part {
			if is {
				n++
			}
		}
		return n
	}
	lowest = 1
	for from := 0; from+window <= len(placed); from++ {
		share := float64(count(placed[from:from+window])) / window
		lowest, highest = min(lowest, share), max(highest, share)
	}
	return lowest, highest, float64(count(placed)) / float64(len(placed))
}

// steady returns the answers of the time in which both tenants wait: without the first and the last second.
func steady(all []served) []served {
	if len(all) == 0 {
		return nil
	}
	from, to := all[0].at.Add(time.Second), all[len(all)-1].at.Add(-time.Second)
	return slices.DeleteFunc(slices.Clone(all), func(s served) bool { return s.at.Before(from) || s.at.After(to) })
}

// TestFairness measures how tenants share slots: flood sends ten times as many requests as other, all to one instance.
func TestFairness(t *testing.T) {
	besideOthers(t)
	cases := []struct {
		nodes   int
		weights [2]int
	}{{8, [2]int{1, 1}}, {8, [2]int{4, 1}}, {8, [2]int{1, 4}}, {40, [2]int{1, 1}}, {40, [2]int{1, 4}}}
	// On a busy machine there may be moments in which only one tenant waits. Without any shares flood would get ten of eleven slots.
	tolerance := 0.1
	if !judged() {
		cases, tolerance = cases[:1], 0.25
	}
	for _, x := range cases {
		t.Run(fmt.Sprintf("%d nodes, %d to %d", x.nodes, x.weights[0], x.weights[1]), func(t *testing.T) {
			c := startCluster(t, x.nodes, x.weights, jobTime*time.Duration(x.nodes)/8) // as many jobs a second, however many nodes
			entitled := float64(x.weights[0]) / float64(x.weights[0]+x.weights[1])
			all := c.load(10*clients, clients, duration()+2*time.Second, c.waiting)
			lowest, highest, total := shares(steady(all))
			t.Logf("entitled to %.3f, got %.3f; in windows of %d slots %.3f to %.3f; %s", entitled, total, window, lowest, highest, describe(all))
			if judged() && (lowest < entitled-0.05 || highest > entitled+0.05) {
				t.Errorf("a share is more than 0.05 from %.3f", entitled)
			}
			if total < entitled-tolerance || total > entitled+tolerance {
				t.Errorf("the share is %.3f, want about %.3f", total, entitled)
			}
			if !judged() || x.nodes > 8 {
				return
			}
			_, _, random := shares(steady(c.load(10*clients, clients, duration(), c.retrying)))
			t.Logf("with random retries flood gets %.3f", random)
		})
	}
}

// TestFloodDoesNotMoveOthers compares the latency and the refusals of a tenant while another sends as much as it does with those while it sends
// ten times as much.
func TestFloodDoesNotMoveOthers(t *testing.T) {
	besideOthers(t)
	c := startCluster(t, 8, [2]int{1, 1}, jobTime)
	rounds := 1
	if judged() {
		rounds = 3
	}
	p99 := make(map[bool][]time.Duration)
	refused := make(map[bool]int)
	for range rounds {
		for _, flooding := range []bool{false, true} {
			n := clients
			if flooding {
				n *= 10
			}
			var took []time.Duration
			for _, s := range steady(c.load(n, clients, duration()/time.Duration(rounds)+2*time.Second, c.waiting)) {
				if s.tenant != other {
					continue
				}
				if s.refusal != "" {
					refused[flooding]++
				}
				took = append(took, s.took)
			}
			p99[flooding] = append(p99[flooding], stats.Percentile(took, 0.99))
		}
	}
	t.Logf("p99 of other: %v while flood sends as much, %v while it sends ten times as much; refusals %d and %d", p99[false], p99[true], refused[false], refused[true])
	if judged() && refused[true] > refused[false] {
		t.Errorf("other was refused %d times", refused[true])
	}
	if before, after := stats.Median(p99[false]), stats.Median(p99[true]); judged() && after > before*11/10 && after > slices.Max(p99[false]) {
		t.Errorf("the p99 of other moved from %v to %v", before, after)
	}
}

// describe counts the answers.
func describe(all []served) string {
	counts := make(map[string]int)
	for _, s := range all {
		key := s.tenant + " placed"
		if s.refusal != "" {
			key = s.tenant + " " + string(s.refusal)
		}
		counts[key]++
	}
	var parts []string
	for key, n := range counts {
		parts = append(parts, fmt.Sprintf("%s %d", key, n))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
