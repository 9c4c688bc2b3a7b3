package scheduler_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/internal/sim"
	"github.com/lingua-scheduler/lingua/wire"
)

// The tests in the files shared_*_test.go run several schedulers in this process that know of each other only what
// the Redis between them tells.

// instance is one of the schedulers, and the way to its door.
type instance struct {
	*scheduler.Scheduler
	peer *sim.API
}

// world is all of them. Who has something to say says it to any.
type world []*instance

// share runs two schedulers on the store at a URL until the test ends. A nil transport calls nodes over HTTP.
func share(t *testing.T, url string, cfg config.Config, transport dispatch.Transport) world {
	t.Helper()
	cfg.Store = url
	cfg.Server.Port, cfg.Server.ShutdownSeconds = 0, 1
	w := make(world, 2)
	t.Cleanup(func() {
		// The client of a cluster cannot be told to stop waiting to look at it once more.
		took(t, "the client of Redis to end", patience, func() bool { return !goes("rueidis.(*call).DelayDo") })
	})
	for i := range w {
		s := newSchedulerWith(t, cfg, transport)
		l, err := s.Listen(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		w[i] = &instance{s, sim.NewAPI("http://" + l.Addr().String())}
		life, stop := context.WithCancel(context.WithoutCancel(t.Context()))
		ended := make(chan error, 1)
		go func() { ended <- s.Run(life, l) }()
		t.Cleanup(func() {
			w[i].peer.Close()
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
	return w
}

// goes reports whether a function has a goroutine.
func goes(function string) bool {
	stacks := make([]byte, 16<<20)
	return bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte(function))
}

func (w world) any() *instance { return w[rand.N(len(w))] }

// sees reports whether every instance has all of these nodes in view.
func (w world) sees(ids ...core.NodeID) bool {
	for _, in := range w {
		for _, id := range ids {
			if in.Fleet.Node(id) == nil {
				return false
			}
		}
	}
	return true
}

func (w world) inFlight() int {
	n := 0
	for _, in := range w {
		n += in.Jobs.InFlight()
	}
	return n
}

// counted sums up, over all instances, a metric's values by one of its labels.
func (w world) counted(t *testing.T, metric, label string) map[string]int {
	t.Helper()
	sums := make(map[string]int)
	for _, in := range w {
		families, err := in.Metrics.Registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() != metric {
				continue
			}
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					if l.GetName() == label && m.GetCounter().GetValue() > 0 {
						sums[l.GetValue()] += int(m.GetCounter().GetValue())
					}
				}
			}
		}
	}
	return sums
}

// took looks for a condition that nobody announces and returns how long it was not met. The patience only ends a test
// that would never end.
func took(t *testing.T, what string, patience time.Duration, ok func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	tick := time.NewTicker(200 * time.Microsecond)
	defer tick.Stop()
	for !ok() {
		if time.Since(began) > patience {
			t.Fatalf("waited %v for %s in vain", patience, what)
		}
		<-tick.C
	}
	return time.Since(began)
}

// insist does something until Redis answers in time, which on a busy machine it may not.
func insist(t *testing.T, ask func() error) {
	t.Helper()
	took(t, "an answer", patience, func() bool {
		err := ask()
		var e *wire.Error
		if errors.As(err, &e) && e.Code == wire.SchedulerDependencyDown {
			return false
		}
		if err != nil {
			t.Fatal(err)
		}
		return true
	})
}

// stalls watches for how long this process is not let run, on a machine that others use too: then nothing can be said of
// what depends on heartbeats.
type stalls struct{ longest atomic.Int64 }

func watchStalls(t *testing.T) *stalls {
	s := &stalls{}
	life, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var watch sync.WaitGroup
	watch.Go(func() {
		for last := time.Now(); backoff.Sleep(life, 20*time.Millisecond); last = time.Now() {
			s.longest.Store(max(s.longest.Load(), int64(time.Since(last))))
		}
	})
	t.Cleanup(func() {
		stop()
		watch.Wait()
	})
	return s
}

// since returns the longest since it was last asked.
func (s *stalls) since() time.Duration { return time.Duration(s.longest.Swap(0)) }

// quantile is the given part of a sorted list.
func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)].Round(100 * time.Microsecond)
}

func sorted(list []time.Duration) []time.Duration {
	slices.Sort(list)
	return list
}

// chiSquare is how far counts are from being equal, and the most that chance makes of it once in a thousand
// experiments: the 99.9th percentile by Wilson and Hilferty's approximation.
func chiSquare(counts []int) (chi, limit float64) {
	total := 0
	for _, n := range counts {
		total += n
	}
	expected := float64(total) / float64(len(counts))
	for _, n := range counts {
		chi += (float64(n) - expected) * (float64(n) - expected) / expected
	}
	const z = 3.0902
	k := float64(len(counts) - 1)
	return chi, k * math.Pow(1-2/(9*k)+z*math.Sqrt(2/(9*k)), 3)
}
