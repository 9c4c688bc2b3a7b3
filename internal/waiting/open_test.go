package waiting

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
)

// heldReads is a store whose replies to one kind of reads are held back until the test lets them go.
type heldReads struct {
	Store
	mu   sync.Mutex
	hold bool
	held []chan struct{} // one for each call, in their order
}

// wait holds a reply back.
func (s *heldReads) wait() {
	s.mu.Lock()
	held := make(chan struct{})
	if s.hold {
		s.held = append(s.held, held)
	} else {
		close(held)
	}
	s.mu.Unlock()
	<-held
}

func (s *heldReads) OpenClasses(
	ctx context.Context, known func(pool core.PoolID, class string) bool, pools ...core.PoolID,
) ([]map[string]string, error) {
	open, err := s.Store.OpenClasses(ctx, known, pools...)
	s.wait()
	return open, err
}

// calls returns how many replies were held back so far.
func (s *heldReads) calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held)
}

// release lets the reply to the i-th call go.
func (s *heldReads) release(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.held[i])
}

// runHeldReads runs a test with a copy of one open class that is older than maxOpenAge.
func runHeldReads(t *testing.T, fn func(q *Queue, st *heldReads, isOpen func(class int) <-chan bool)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		st := &heldReads{Store: memstore.New(store.Timing{Presence: time.Hour})}
		q := newCrowdedQueue(t, st, 1, 1)
		time.Sleep(maxOpenAge)
		st.hold = true
		fn(q, st, func(class int) <-chan bool {
			answer := make(chan bool, 1)
			go func() {
				c, _ := newWaitClass(q.options.Fleet, variedSpec(class), nil)
				_ = q.open.renew(t.Context())
				answer <- q.open.classes("")[c.id] != nil
			}()
			synctest.Wait()
			return answer
		})
	})
}

// TestCallersShareARead: requests that ask at the same time which classes are open share one read of the store.
func TestCallersShareARead(t *testing.T) {
	t.Parallel()
	runHeldReads(t, func(_ *Queue, st *heldReads, isOpen func(int) <-chan bool) {
		var answers []<-chan bool
		for range 20 {
			answers = append(answers, isOpen(0))
		}
		if st.calls() != 1 {
			t.Errorf("%d reads for 20 callers, want 1", st.calls())
		}
		st.release(0)
		for i, answer := range answers {
			if !<-answer {
				t.Errorf("caller %d: the class is not open", i)
			}
		}
		if st.calls() != 1 {
			t.Errorf("%d reads, want 1", st.calls())
		}
	})
}

// TestLateCallerReadsAgain: a caller does not share a read that began more than maxOpenAge ago, as it may be older than a change. Others
// share the later read, also after the earlier one has ended.
func TestLateCallerReadsAgain(t *testing.T) {
	t.Parallel()
	runHeldReads(t, func(q *Queue, st *heldReads, isOpen func(int) <-chan bool) {
		early := isOpen(0)
		enqueueVaried(t, q, 1)
		time.Sleep(maxOpenAge)
		late := isOpen(1)
		if st.calls() != 2 {
			t.Fatalf("%d reads, want 2", st.calls())
		}
		st.release(0)
		if !<-early {
			t.Error("the class of the early caller is not open")
		}
		joins := isOpen(1)
		if st.calls() != 2 {
			t.Errorf("%d reads: the last caller does not share the second", st.calls())
		}
		for i := range st.calls() - 1 {
			st.release(i + 1)
		}
		if !<-late || !<-joins {
			t.Error("the change before the read is not in the copy")
		}
	})
}

// TestEarlierReadEndsLater: what an earlier read found does not replace what a later one has found.
func TestEarlierReadEndsLater(t *testing.T) {
	t.Parallel()
	runHeldReads(t, func(q *Queue, st *heldReads, isOpen func(int) <-chan bool) {
		early := isOpen(0)
		enqueueVaried(t, q, 1)
		time.Sleep(maxOpenAge)
		late := isOpen(1)
		st.release(1)
		if !<-late {
			t.Error("the later read did not find the second class")
		}
		st.release(0)
		if !<-early || q.open.count() != 2 {
			t.Errorf("the copy has %d classes, want 2", q.open.count())
		}
	})
}

// TestEarlierReadEndsWhenNobodyWaits: the same holds if the later one has found that nobody waits.
func TestEarlierReadEndsWhenNobodyWaits(t *testing.T) {
	t.Parallel()
	runHeldReads(t, func(q *Queue, st *heldReads, isOpen func(int) <-chan bool) {
		enqueueVaried(t, q, 1)
		early := isOpen(0) // the store has answered that both classes are open
		v, err := q.store.ViewQueue(t.Context(), "", fairqueue.ViewParams{Flows: 2, Waiters: 1})
		if err != nil || len(v.Flows) != 2 {
			t.Fatal(v, err)
		}
		for _, f := range v.Flows {
			if err := q.store.Settle(t.Context(), "", f.Waiters[0], fairqueue.Left); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(maxOpenAge)
		late := isOpen(0)
		st.release(1)
		if <-late || q.open.any.Load() {
			t.Error("the later read did not find that nobody waits")
		}
		st.release(0)
		if <-early || q.open.count() != 0 || q.open.any.Load() {
			t.Errorf("the copy has %d classes, and nobody waits", q.open.count())
		}
	})
}
