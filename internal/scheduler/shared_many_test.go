package scheduler_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/redistest"
	"github.com/lingua-scheduler/lingua/internal/sim"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

var manyNodes = flag.Int("many-nodes", 2000, "how many nodes TestReadyMeansEveryNodeIsKnown and TestLosingMostNodesAtOnce have")

// populate registers many nodes with an instance, a few at a time.
func populate(t *testing.T, in *instance, n int, declare func(i int) nodes.Patch) []core.NodeID {
	t.Helper()
	ids := make([]core.NodeID, n)
	next := make(chan int)
	var work sync.WaitGroup
	for range 32 {
		work.Go(func() {
			for i := range next {
				ids[i] = core.NodeID(fmt.Sprintf("many-%d", i))
				insist(t, func() error {
					_, err := in.Nodes.Register(t.Context(), ids[i], declare(i), store.Activity{Lists: true})
					return err
				})
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	work.Wait()
	return ids
}

// TestReadyMeansEveryNodeIsKnown: a new instance over a store with many nodes refuses nothing once it says that it is ready.
// Each direction is served by one node only, so that a node that is missing is a refusal.
func TestReadyMeansEveryNodeIsKnown(t *testing.T) {
	const directions = 200 // of as many of the nodes
	redis := redistest.Start(t)
	cfg := config.Default()
	cfg.Store = redis.URL()
	cfg.Scheduler.Nodes.PresenceTTLMS, cfg.Scheduler.Dispatch.HeartbeatStaleMS = 120_000, 120_000 // nobody sends heartbeats
	transport := &instant{}
	w := share(t, redis.URL(), cfg, transport)
	language := func(i int) core.Lang { return core.Lang(fmt.Sprintf("q%c%c", 'a'+i/20, 'a'+i%20)) }
	every := *manyNodes / directions
	populate(t, w[0], *manyNodes, func(i int) nodes.Patch {
		if i%every == 0 && i/every < directions {
			return declaration(language(i/every), "zh")
		}
		return declaration("en", "zh")
	})

	s := newSchedulerWith(t, cfg, transport)
	transport.jobs.Store(s.Jobs)
	l, err := s.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	peer := sim.NewAPI("http://" + l.Addr().String())
	life, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	began := time.Now()
	go func() { ended <- s.Run(life, l) }()
	t.Cleanup(func() {
		peer.Close()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	took(t, "the new instance to be ready", patience, func() bool { return peer.Get(t.Context(), "/readyz", new(wire.ReadyResponse)) == nil })
	ready := time.Since(began)
	refused := make(map[wire.Code]int)
	for i := range directions {
		body := map[string]any{"session_id": "s", "src_lang": string(language(i)), "tgt_lang": "zh", "request_id": fmt.Sprintf("r%d", i)}
		err := peer.Post(t.Context(), "/v1/dispatch/f2f", body, new(wire.DispatchResponse))
		if e := new(wire.Error); errors.As(err, &e) {
			refused[e.Code]++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d nodes: ready after %v; of %d dispatches from then on, each for another node, refused: %v",
		*manyNodes, ready.Round(time.Millisecond), directions, refused)
	if len(refused) > 0 {
		t.Errorf("refused after it was ready: %v", refused)
	}
}
