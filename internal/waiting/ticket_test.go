package waiting

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"pgregory.net/rapid"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// returnCounter is a store that counts the offers that are returned to it.
type returnCounter struct {
	Store
	returned atomic.Int64
}

func (s *returnCounter) Settle(ctx context.Context, pool core.PoolID, w fairqueue.Waiter, how fairqueue.Settlement) error {
	if how == fairqueue.Returned {
		s.returned.Add(1)
	}
	return s.Store.Settle(ctx, pool, w, how)
}

// fates is a queue whose offers are made by the test, and that counts what becomes of them.
type fates struct {
	*Queue
	store      *returnCounter
	made, used int
	waiters    []fairqueue.Waiter // to which offers may be made, also after they have left
}

// passedOn returns how many offers wait to be made to the next request.
func (f *fates) passedOn() (n int) {
	f.offers.mu.Lock()
	defer f.offers.mu.Unlock()
	for _, slots := range f.offers.pending {
		n += slots
	}
	return n
}

// check compares how many offers were made with how many of them had each fate. It returns the difference; empty: there is none.
func (f *fates) check() string {
	synctest.Wait()
	lapsed := int(testutil.ToFloat64(f.options.Metrics.Offers.WithLabelValues(telemetry.OfferLapsed)))
	returned, passed := int(f.store.returned.Load()), f.passedOn()
	if f.used+returned+lapsed+passed != f.made {
		return fmt.Sprintf("%d offers were made: %d used, %d returned, %d lapsed, %d passed on", f.made, f.used, returned, lapsed, passed)
	}
	return ""
}

// TestEachOfferHasOneFate: whatever requests do with offers, and whenever these come, each is used, returned, passed on to the next request, or
// replaced by a later one of the same request. A lost one is a slot that stays idle until a sweep, one with two fates is offered twice.
func TestEachOfferHasOneFate(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		accepted, changes := rapid.Bool().Draw(rt, "accepted"), rapid.Bool().Draw(rt, "changes")
		steps := rapid.SliceOfN(rapid.SampledFrom([]string{"offer", "late offer", "await", "served", "leave", "later"}), 1, 30).Draw(rt, "steps")
		failure := ""
		synctest.Test(t, func(t *testing.T) {
			st := &returnCounter{Store: memstore.New(store.Timing{Presence: time.Hour})}
			f := &fates{Queue: newCrowdedQueue(t, st, 1, 0), store: st}
			defer f.Close()
			f.offers.working = true // offers that are passed on are only counted
			f.offers.keep, f.open.opened = func() {}, func() {}
			excluded := 0
			ticket := f.Ticket(Entry{
				Job: "job-1", Spec: variedSpec(480), Since: time.Now(), Until: time.Now().Add(time.Hour), Accepted: accepted,
				Except: func() []core.NodeID {
					if changes {
						excluded++
					}
					return []core.NodeID{core.NodeID(fmt.Sprint("other-", excluded))}
				},
			})
			for _, step := range steps {
				f.step(ticket, step)
			}
			ticket.Leave()
			failure = f.check()
		})
		if failure != "" {
			rt.Fatal(failure)
		}
	})
}

// step makes one step of a request, or an offer to it.
func (f *fates) step(ticket *Ticket, step string) {
	switch step {
	case "offer", "late offer":
		if len(f.waiters) == 0 {
			return
		}
		to := f.waiters[len(f.waiters)-1]
		if step == "late offer" {
			to = f.waiters[0]
		}
		f.made++
		f.offers.receive(Offer{Waiter: to, Node: variedNode(0)})
	case "await":
		_, _ = ticket.Await(context.Background(), time.Now().Add(time.Millisecond))
		if w := ticket.waiter; w != nil {
			f.waiters = append(f.waiters, *w.queued.Load())
		}
	case "served":
		if ticket.offered != "" {
			f.used++
		}
		ticket.Served()
	case "leave":
		ticket.Leave()
	case "later":
		time.Sleep(acceptedDeadline)
	}
	synctest.Wait()
}
