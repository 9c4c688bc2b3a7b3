package drill

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
	"github.com/lingua-scheduler/lingua/test/clustertest/journal"
)

const (
	// sampleInterval is how often the store is asked which slots could be reserved.
	sampleInterval = 50 * time.Millisecond
	// queueEvery is with how many of these samples one of the queue is taken.
	queueEvery = 4
	// maxSampleGap is up to what time between two samples something that both of them found is taken to hold in between.
	maxSampleGap = 250 * time.Millisecond
)

// occupancySample is which nodes had a slot that could be reserved, according to the store.
type occupancySample struct {
	at     int64
	failed bool // the store did not answer
	free   []bool
}

// queueSample is which instances had requests in the queue.
type queueSample struct {
	at        int64
	instances []string
}

// occupancySampler samples which slots could be reserved, and who waits for them.
type occupancySampler struct {
	nodes   []core.NodeID
	samples []occupancySample
	queued  []queueSample
	running sync.WaitGroup
	stop    context.CancelFunc
}

// startOccupancySampler starts sampling. The samples may be read after end.
func (c *testCluster) startOccupancySampler(t *testing.T, nodes []core.NodeID) *occupancySampler {
	t.Helper()
	address, err := redisstore.ParseAddress(c.Redis.DirectURL())
	c.Must(err)
	second := time.Second
	st, err := redisstore.Open(t.Context(), redisstore.Options{
		Address: address, Prefix: keyPrefix, Log: slog.New(slog.DiscardHandler), Timeout: 400 * time.Millisecond,
		Timing: store.Timing{Presence: 10 * second, ReservedTTL: 3 * second, Attempt: 13 * second, Job: 16 * second, Retention: recordRetention},
	})
	c.Must(err)
	t.Cleanup(func() { _ = st.Close() })
	ctx, stop := context.WithCancel(t.Context())
	s := &occupancySampler{nodes: nodes, stop: stop}
	t.Cleanup(s.end)
	s.running.Go(func() {
		for n := 0; run.Sleep(ctx, sampleInterval); n++ {
			s.take(ctx, st)
			if n%queueEvery == 0 {
				s.takeQueue(ctx, st)
			}
		}
	})
	return s
}

// take takes one sample.
func (s *occupancySampler) take(ctx context.Context, st store.Store) {
	occupancy := make([]store.Occupancy, len(s.nodes))
	err := st.Probe(ctx, s.nodes, occupancy)
	got := occupancySample{at: journal.Now(), failed: err != nil}
	for _, o := range occupancy {
		got.free = append(got.free, o.Free())
	}
	s.samples = append(s.samples, got)
}

// takeQueue takes a sample of the queue.
func (s *occupancySampler) takeQueue(ctx context.Context, st store.Store) {
	view, err := st.ViewQueue(ctx, "", fairqueue.ViewParams{Flows: 1000, Waiters: 1000})
	if err != nil {
		return
	}
	got := queueSample{at: journal.Now()}
	for _, f := range view.Flows {
		for _, w := range f.Waiters {
			if !slices.Contains(got.instances, w.Instance) {
				got.instances = append(got.instances, w.Instance)
			}
		}
	}
	s.queued = append(s.queued, got)
}

// end ends sampling.
func (s *occupancySampler) end() {
	s.stop()
	s.running.Wait()
}

// freeSpans returns when each node had a slot that could be reserved.
func freeSpans(nodes []core.NodeID, samples []occupancySample) map[string]spans {
	found := make(map[string][]span)
	for i := 1; i < len(samples); i++ {
		a, b := samples[i-1], samples[i]
		if a.failed || b.failed || b.at-a.at > int64(maxSampleGap) {
			continue
		}
		for n, id := range nodes {
			if a.free[n] && b.free[n] {
				found[string(id)] = append(found[string(id)], span{a.at, b.at})
			}
		}
	}
	free := make(map[string]spans)
	for id, list := range found {
		free[id] = unite(list...)
	}
	return free
}

// outages returns when the store did not answer.
func outages(samples []occupancySample) spans {
	var found []span
	for i, s := range samples {
		if s.failed {
			found = append(found, span{samples[max(0, i-1)].at, samples[min(len(samples)-1, i+1)].at})
		}
	}
	return unite(found...)
}
