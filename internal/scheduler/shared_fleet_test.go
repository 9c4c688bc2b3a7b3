package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/redistest"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestTwoInstancesShareAFleet: what a node says to one instance counts on the other.
func TestTwoInstancesShareAFleet(t *testing.T) {
	t.Run("a node is seen by both", aNodeIsSeenByBoth)
	t.Run("a silent node leaves both", aSilentNodeLeavesBoth)
	t.Run("a language is withdrawn from both", aLanguageIsWithdrawnFromBoth)
}

func declaration(langs ...core.Lang) nodes.Patch {
	slots, url := 1000, "http://127.0.0.1:9/jobs"
	return nodes.Patch{Semantic: langs, MaxJobs: &slots, Callback: &url}
}

func register(t *testing.T, in *instance, id core.NodeID, langs ...core.Lang) {
	t.Helper()
	insist(t, func() error {
		_, err := in.Nodes.Register(t.Context(), id, declaration(langs...), store.Activity{Lists: true})
		return err
	})
}

func aNodeIsSeenByBoth(t *testing.T) {
	const registrations = 100
	w := share(t, redistest.Start(t).URL(), config.Default(), nil)
	pool := w[1].Fleet.Pool(core.Direction{Src: "en", Tgt: "zh"}, false)
	var times []time.Duration
	for i := range registrations {
		id := core.NodeID(fmt.Sprintf("n%d", i))
		began := time.Now()
		register(t, w[0], id, "en", "zh")
		took(t, "the other instance to see a node", patience, func() bool {
			for m := range pool.Members().All() {
				if m.ID() == id {
					return true
				}
			}
			return false
		})
		times = append(times, time.Since(began))
	}
	sorted(times)
	t.Logf("%d nodes registered on one instance could be picked on the other after p50 %v, p99 %v; promised are 200ms",
		registrations, quantile(times, 0.5), quantile(times, 0.99))
}

func aSilentNodeLeavesBoth(t *testing.T) {
	cfg := config.Default()
	c := &cfg.Scheduler
	c.Nodes.HeartbeatIntervalMS, c.Nodes.PresenceTTLMS, c.Dispatch.HeartbeatStaleMS = 300, 1500, 1500
	w := share(t, redistest.Start(t).URL(), cfg, nil)

	life, stop := context.WithCancel(t.Context())
	var beating sync.WaitGroup
	defer beating.Wait()
	defer stop()
	silence := make(chan struct{}) // closed when all but one fall silent
	var last atomic.Int64          // when the last of those was heard, in nanoseconds since the beginning
	began := time.Now()
	ids := make([]core.NodeID, 10)
	for i := range ids {
		ids[i] = core.NodeID(fmt.Sprintf("n%d", i))
		register(t, w.any(), ids[i], "en", "zh")
		beating.Go(func() {
			for backoff.SleepJitter(life, c.Nodes.HeartbeatIntervalMS.Duration(), 0.2) {
				select {
				case <-silence:
					if i > 0 {
						return
					}
				default:
				}
				_, err := w.any().Nodes.Heartbeat(life, nodes.Heartbeat{Node: ids[i], Activity: store.Activity{Lists: true}})
				if err == nil && i > 0 {
					last.Store(int64(time.Since(began)))
				}
			}
		})
	}
	took(t, "both instances to see all nodes", patience, func() bool { return w.sees(ids...) })
	close(silence)
	took(t, "silent nodes to leave both views", patience, func() bool {
		for _, in := range w {
			for _, id := range ids[1:] {
				if in.Fleet.Node(id) != nil {
					return false
				}
			}
		}
		return true
	})
	t.Logf("silent nodes had left both views %v after the last was heard; promised are %v",
		(time.Since(began) - time.Duration(last.Load())).Round(time.Millisecond), c.Nodes.PresenceTTLMS.Duration()+time.Second)
	took(t, "the node that is heard to be in both views", patience, func() bool { return w.sees(ids[0]) })
}

// instant is a transport to nodes that are done with a job the moment they get it.
type instant struct {
	jobs atomic.Pointer[dispatch.Dispatcher]
}

func (i *instant) Deliver(ctx context.Context, _ *core.Node, a *wire.Assignment) error {
	r := dispatch.Report{Job: core.JobID(a.JobID), Holder: core.Holder{Attempt: a.AttemptID, Node: core.NodeID(a.NodeID)}}
	return i.jobs.Load().Done(ctx, r, nil)
}

func (*instant) Cancel(context.Context, core.NodeID, core.JobID, int) {}

// aLanguageIsWithdrawnFromBoth: once a node's heartbeat that leaves a language out was answered by one instance, the
// other grants nothing in that language any more, whether or not it has heard of it.
func aLanguageIsWithdrawnFromBoth(t *testing.T) {
	const (
		rounds  = 300
		callers = 3
	)
	transport := &instant{}
	w := share(t, redistest.Start(t).URL(), config.Default(), transport)
	transport.jobs.Store(w[1].Jobs)
	var serial, away, unheard atomic.Int64
	ask := func() error {
		for began := time.Now(); ; away.Add(1) {
			_, err := w[1].Jobs.Dispatch(t.Context(), utteranceOf(fmt.Sprintf("r%d", serial.Add(1))))
			// The machine may be too busy for Redis to answer in time, which is no answer.
			if e := new(wire.Error); !errors.As(err, &e) || e.Code != wire.SchedulerDependencyDown || time.Since(began) > patience {
				return err
			}
			backoff.Sleep(t.Context(), time.Millisecond)
		}
	}
	say := func(langs ...core.Lang) {
		t.Helper()
		beat := nodes.Heartbeat{Node: "n", Patch: declaration(langs...), Activity: store.Activity{Lists: true}}
		insist(t, func() error {
			_, err := w[0].Nodes.Heartbeat(t.Context(), beat)
			return err
		})
	}
	register(t, w[0], "n", "en", "zh")
	for range rounds {
		took(t, "the language to be served", patience, func() bool {
			say("en", "zh")
			return ask() == nil
		})
		say("de", "zh")
		var calls sync.WaitGroup
		for range callers {
			calls.Go(func() {
				if n := w[1].Fleet.Node("n"); n != nil && slices.Contains(n.Declared().Capability.Semantic, "en") {
					unheard.Add(1)
				}
				if err := ask(); err == nil {
					t.Error("a job was granted in a language that the node had withdrawn")
				}
			})
		}
		calls.Wait()
	}
	t.Logf("%d dispatches after a withdrawal, %d of them before the other instance had heard of it: none was granted; not answered in time: %d",
		rounds*callers, unheard.Load(), away.Load())
	if unheard.Load() == 0 {
		t.Error("no dispatch came before the news: this test tested nothing")
	}
}
