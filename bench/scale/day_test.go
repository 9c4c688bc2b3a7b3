package scale

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	nodeCount    = flag.Int("scale-nodes", 250, "nodes of the model")
	sessionCount = flag.Int("scale-sessions", 2500, "sessions of the model")
	hourLength   = flag.Duration("scale-hour", 25*time.Second, "how long a busy hour of the day is in the model")
	seedOfDay    = flag.Uint64("scale-seed", 1, "seed of the model")
	maxWaiting   = flag.Int("scale-max-waiting", 800, "utterances that may wait in a queue")
	surveyEvery  = flag.Int("scale-survey-every", 1, "of so many surveys of the fleet one is made by the code of the scheduler, and the others are drawn")
	windowSlots  = flag.Int("scale-window", 500, "slots in which the shares of tenants are compared")
	plotFile     = flag.String("scale-plot", "", "file to which the plot is written")
)

// maxDeviation is by how much what a tenant gets while it waits may differ from its part.
const maxDeviation = 0.05

// simulate runs a model, and prints from time to time how far it is.
func simulate(t *testing.T, p plan) *model {
	t.Helper()
	began, hours, ended := time.Now(), new(atomic.Uint64), make(chan struct{})
	go func() {
		ticker := time.NewTicker(10 * time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-ended:
				return
			case <-ticker.C:
				fmt.Fprintf(os.Stderr, "after %s: %.2f of %v hours\n", time.Since(began).Round(time.Second), math.Float64frombits(hours.Load()), day)
			}
		}
	}()
	defer close(ended)
	var m *model
	synctest.Test(t, func(t *testing.T) {
		m = newModel(t, p, hours)
		m.run()
	})
	m.measured.wall = time.Since(began)
	return m
}

// TestDay simulates a day and checks what must hold whatever happens: no node gets more than its slots, nobody is served after the end of its
// wait, every utterance ends, and tenants that wait get their shares.
func TestDay(t *testing.T) {
	t.Parallel()
	m := simulate(t, plan{
		nodes: *nodeCount, sessions: *sessionCount, hour: *hourLength, seed: *seedOfDay, maxWaiting: *maxWaiting, window: *windowSlots, surveyEvery: *surveyEvery,
	})
	var report bytes.Buffer
	m.print(&report)
	t.Logf("\n%s", report.String())
	m.checkEnds(t)
	m.checkShares(t)
	if *plotFile != "" {
		if err := os.WriteFile(*plotFile, m.plot(), 0o644); err != nil {
			t.Error(err)
		}
	}
}

// checkEnds checks that every utterance has ended, and that nothing is left.
func (m *model) checkEnds(t *testing.T) {
	t.Helper()
	all := m.measured.total()
	ended := 0
	for _, n := range all.ended {
		ended += n
	}
	if ended != all.sent || all.placed > all.sent {
		t.Errorf("%d utterances were sent and %d placed, %d have ended", all.sent, all.placed, ended)
	}
	if all.waited == 0 || m.measured.retried == 0 || all.ended[refusedCannotBeMet] == 0 || all.ended[refusedQueueFull] == 0 {
		t.Errorf("%+v, %d retried: the day shows nothing", all.ended, m.measured.retried)
	}
	if m.ledger.taken != 0 {
		t.Errorf("%d slots are taken after the last utterance", m.ledger.taken)
	}
	for pool, q := range m.line.queues {
		if n := q.Waiting(); n != 0 || m.line.unoffered[pool] != 0 {
			t.Errorf("%d utterances wait in the queue %q after the last one has ended, %d are counted", n, pool, m.line.unoffered[pool])
		}
	}
	if s := &m.selector.surveys; s.wrong > 0 {
		t.Errorf("%d surveys found no slot though they could probe every node", s.wrong)
	}
}

// checkShares checks that tenants that wait get the shares to which they are entitled, and that a tenant that is bound to a pool gets half of
// the slots of the pool for which others wait too. A tenant that floods may get less for a while: it is charged for slots in classes in which
// only it waits.
func (m *model) checkShares(t *testing.T) {
	t.Helper()
	f := &m.measured.fairness
	for i, tenant := range tenantPlans {
		if tenant.pool != "" {
			continue
		}
		least := 1 - maxDeviation
		if tenant.floods {
			least = 0.75
		}
		if n := len(f.deviations[i]); n == 0 {
			t.Errorf("tenant %s never waited for long", tenant.id)
		} else if share := f.granted[i] / f.entitled[i]; share < least || share > 1+maxDeviation {
			t.Errorf("tenant %s got %.3f of its entitlement in the %d windows in which it waited", tenant.id, share, n)
		}
	}
	if share := float64(f.bound) / float64(f.contested); math.Abs(share-0.5) > maxDeviation {
		t.Errorf("the tenant that is bound to a pool got %.3f of %d contested slots, want half", share, f.contested)
	}
}

// TestSameSeedSameDay checks that a model can be repeated.
func TestSameSeedSameDay(t *testing.T) {
	t.Parallel()
	var reports [2]string
	for i := range reports {
		m := simulate(t, plan{nodes: 40, sessions: 400, hour: 10 * time.Second, seed: 7, maxWaiting: 50, window: 200, surveyEvery: 3})
		m.measured.wall = 0
		var report bytes.Buffer
		m.print(&report)
		reports[i] = report.String()
	}
	if diff := cmp.Diff(reports[0], reports[1]); diff != "" {
		t.Errorf("two days of the same seed (-first +second):\n%s", diff)
	}
}
