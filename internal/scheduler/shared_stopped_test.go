package scheduler_test

import (
	"flag"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

var stopFor = flag.Duration("stop-for", 2*time.Second, "how long TestRedisStopped halts Redis while the jobs in hand are not overdue")

// TestRedisStopped halts Redis under load: first for longer than leases and presence live, then for longer than anything
// does. When it goes on no node is given more than it has room for, and what the nodes did meanwhile counts unless it is
// too late.
func TestRedisStopped(t *testing.T) {
	cfg := hasty()
	c := &cfg.Scheduler
	redis := redistest.Start(t)
	w := share(t, redis.URL(), cfg, nil)
	var long atomic.Int64 // some jobs last as long as Redis is halted
	long.Store(int64(*stopFor))
	nodes := startNodes(t, w, sharedNodes, sharedSlots, func() time.Duration {
		if rand.N(20) == 0 {
			return time.Duration(long.Load()) + rand.N(500*time.Millisecond)
		}
		return 50*time.Millisecond + rand.N(150*time.Millisecond)
	})
	load := startLoad(t, w)
	load.sent(100)

	stall := watchStalls(t)
	h := halt(t, redis, load, nodes, *stopFor)
	lost := h.lost(t, w)
	t.Logf("halted for %v (presence %v, attempt %v): %d jobs in hand, lost %d; service was back after %v, promised are 2s; oversold %d",
		*stopFor, c.Nodes.PresenceTTLMS.Duration(), c.Dispatch.AttemptTimeoutMS.Duration(), len(h.hands), len(lost), h.back, nodes.oversold(t))
	stalled := stall.since()
	for _, job := range lost {
		if stalled > c.Nodes.PresenceTTLMS.Duration()/2 {
			t.Logf("this machine stood still for %v: %s", stalled.Round(time.Millisecond), job)
		} else {
			t.Error(job)
		}
	}

	forever := c.Dispatch.JobTimeoutMS.Duration() + 2*c.Nodes.PresenceTTLMS.Duration() + time.Second
	long.Store(int64(forever))
	load.sent(100)
	h = halt(t, redis, load, nodes, forever)
	t.Logf("halted for %v (job %v, its record %v): %d jobs in hand, past their time, whose results: %v; service was back after %v; oversold %d",
		forever, c.Dispatch.JobTimeoutMS.Duration(), forever-time.Second, len(h.hands), fates(h.hands), h.back, nodes.oversold(t))
	load.sent(100)

	v := load.settle(2 * forever)
	t.Logf("accepted %d: %v; refused on the way %v, reconciled %v, fenced %v", len(load.accepted), v, load.refused,
		w.counted(t, "lingua_reconciled_leases_total", "kind"), w.counted(t, "lingua_fenced_total", "cause"))
	if len(v.forgotten) > 0 {
		t.Logf("forgotten, because their records lapsed while Redis was halted:%s", load.explain(nodes, v.forgotten))
	}
	for _, id := range v.forgotten {
		if load.accepted[id].began.After(load.marked) {
			t.Errorf("%s was accepted after Redis was halted for the last time, and is forgotten", id)
		}
	}
	if n := nodes.oversold(t); n > 0 {
		t.Errorf("%d jobs were sent to nodes that had no room for them", n)
	}
}

// hasty is a configuration in which everything is over soon after the first halt.
func hasty() config.Config {
	cfg := config.Default()
	c := &cfg.Scheduler
	c.Nodes.HeartbeatIntervalMS, c.Nodes.PresenceTTLMS, c.Dispatch.HeartbeatStaleMS = 300, 1500, 1500
	c.Dispatch.ACKTimeoutMS, c.TaskBinding.ReservedTTLSeconds = 1500, 2
	c.Dispatch.AttemptTimeoutMS = config.Millis((*stopFor + 3*time.Second).Milliseconds())
	c.Dispatch.JobTimeoutMS = c.Dispatch.AttemptTimeoutMS + 1000
	c.TaskBinding.LeaseSeconds = 3600
	c.Observability.PathWarnMS = 60_000
	return cfg
}

// halted is a time in which Redis did nothing.
type halted struct {
	began time.Time
	d     time.Duration
	back  time.Duration // until the service was back, from its end
	hands []handful     // what the nodes had in hand when it began
}

// halt stops Redis for a while and returns when the jobs that were in hand have left their nodes' hands.
func halt(t *testing.T, redis *redistest.Server, l *load, nodes fleet, d time.Duration) *halted {
	t.Helper()
	h := &halted{began: time.Now(), d: d}
	redis.Stop()
	h.hands = nodes.inHand()
	backoff.Sleep(t.Context(), d)
	l.mark()
	redis.Continue()
	h.back = l.outage()
	took(t, "the jobs in hand to end", 3*patience, func() bool { return fates(h.hands)[wire.Code("")] == 0 })
	return h
}

// lost says of each job whose result was not taken what is known of it. One that the record says had left the node
// before is none.
func (h *halted) lost(t *testing.T, w world) []string {
	t.Helper()
	var lost []string
	for _, hand := range h.hands {
		if hand.fate() == accepted {
			continue
		}
		var job wire.Job
		if err := w.any().peer.Get(t.Context(), "/v1/jobs/"+hand.job.JobID, &job); err != nil {
			t.Error(err)
		}
		over := false
		for _, a := range job.Attempts {
			over = over || a.AttemptID == hand.job.AttemptID && a.EndedMS > 0 && a.EndedMS <= h.began.UnixMilli()
		}
		if !over {
			lost = append(lost, hand.String()+" when Redis was halted for "+h.d.String()+"; the record says: "+job.State+" "+attemptsOf(&job))
		}
	}
	return lost
}
