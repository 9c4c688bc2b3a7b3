package scheduler_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/redistest"
)

// TestANewLife empties Redis under load. The fleet is whole again as soon as the nodes have been told to register again,
// what they are at takes its slots again, and what is accepted from then on ends. What becomes of the jobs of the life
// before is counted: the store promises nothing about them.
func TestANewLife(t *testing.T) {
	cfg := brisk()
	c := &cfg.Scheduler
	c.Nodes.PresenceTTLMS, c.Dispatch.HeartbeatStaleMS = 3000, 3000
	c.Dispatch.AttemptTimeoutMS, c.Dispatch.JobTimeoutMS = 5000, 9000
	redis := redistest.Start(t)
	w := share(t, redis.URL(), cfg, nil)
	nodes := startNodes(t, w, sharedNodes, sharedSlots, func() time.Duration {
		if rand.N(10) == 0 {
			return 3 * time.Second
		}
		return 50*time.Millisecond + rand.N(250*time.Millisecond)
	})
	load := startLoad(t, w)
	load.sent(100)

	stall := watchStalls(t)
	load.mark()
	do(t, redis, "FLUSHALL")
	flushed := time.Now()
	hands := nodes.inHand()
	whole := took(t, "every node to be registered again and seen by both", patience, func() bool {
		for _, n := range nodes {
			n.mu.Lock()
			again := n.again > 0
			n.mu.Unlock()
			if !again {
				return false
			}
		}
		return w.sees(nodes.ids()...)
	})
	back := load.outage()
	kept := adopted(t, w, hands, flushed.Add(4*c.Nodes.HeartbeatIntervalMS.Duration()))
	took(t, "the jobs in hand to end", 3*patience, func() bool { return fates(hands)[""] == 0 })
	load.sent(200)
	v := load.settle(c.Dispatch.JobTimeoutMS.Duration() + 2*c.Nodes.PresenceTTLMS.Duration() + 5*time.Second)

	before, amid := 0, 0
	for _, id := range v.forgotten {
		switch s := load.accepted[id]; {
		case s.ended.Before(flushed):
			before++
		case s.began.Before(flushed):
			amid++
		default:
			t.Errorf("%s was accepted in the new life and is forgotten:%s", id, nodes.story(id))
		}
	}
	t.Logf("the fleet was whole again after %v, at a heartbeat of %v; dispatches are accepted after %v; %d jobs were in hand, of %d that were still there four heartbeats later %d had their slots; results: %v",
		whole.Round(time.Millisecond), c.Nodes.HeartbeatIntervalMS.Duration(), back, len(hands), kept.there, kept.counted, fates(hands))
	t.Logf("accepted %d: %v, of these %d accepted before it was emptied and %d meanwhile; oversold %d; refused on the way %v, noticed as forgotten %v, reconciled %v",
		len(load.accepted), v, before, amid, nodes.oversold(t), load.refused,
		w.counted(t, "lingua_store_lost_total", "kind"), w.counted(t, "lingua_reconciled_leases_total", "kind"))
	if stalled := stall.since(); kept.counted < kept.there && stalled < c.Nodes.HeartbeatIntervalMS.Duration() {
		t.Errorf("%d jobs that nodes list do not take a slot", kept.there-kept.counted)
	}
}

// kept is how many jobs of the life before were in hand at a moment, and how many of these took a slot.
type kept struct{ there, counted int }

// adopted waits for a moment and looks which jobs that are still in hand have a lease, whoever wrote it.
func adopted(t *testing.T, w world, hands []handful, at time.Time) kept {
	t.Helper()
	took(t, "the moment", patience, func() bool { return time.Now().After(at) })
	var k kept
	for _, h := range hands {
		var leases []core.Lease
		insist(t, func() (err error) {
			leases, err = w.any().Store.Orphans(t.Context(), core.NodeID(h.node.id))
			return err
		})
		if h.fate() != "" {
			continue
		}
		k.there++
		for _, l := range leases {
			if string(l.Job) == h.job.JobID && l.Attempt == h.job.AttemptID {
				k.counted++
				break
			}
		}
	}
	return k
}
