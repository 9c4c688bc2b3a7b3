package dispatch

import (
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/pick"
	"github.com/lingua-scheduler/lingua/internal/store"
)

func TestTokensBelongToTheirInstance(t *testing.T) {
	t.Parallel()
	one, other := &tokenSource{instance: "i-1"}, &tokenSource{instance: "i-10"}
	first, second := one.next(), one.next()
	if first == second {
		t.Errorf("two tokens are equal: %s", first)
	}
	for token, mine := range map[core.Token]bool{first: true, second: true, other.next(): false} {
		if issuedBy(token, "i-1") != mine {
			t.Errorf("%s: issued by i-1 %v, want %v", token, !mine, mine)
		}
		for _, job := range []*core.Job{
			{State: core.StateDispatched, Token: token},
			{State: core.StateRetrying, Token: "i-9.1", Owner: token},
		} {
			if one.owns(job) != mine || other.owns(job) == mine {
				t.Errorf("%s: owned by i-1 %v, by i-10 %v", token, one.owns(job), other.owns(job))
			}
		}
	}
	if job := (&core.Job{Token: first}); dispatcherOf(job) != "i-1" {
		t.Errorf("%s was dispatched by %s", first, dispatcherOf(job))
	}
	if waiting := (&core.Job{State: core.StateRetrying, Owner: audioOwner}); one.owns(waiting) || !waitsForAudio(waiting) {
		t.Error("a job that waits for its audio has an owner")
	}
}

func TestCallsForTheSameJobShareOneResult(t *testing.T) {
	t.Parallel()
	g := newCallGroup()
	call, first := g.join("job-1", "f")
	if !first {
		t.Fatal("the first call is not the first")
	}
	var waiting sync.WaitGroup
	for range 5 {
		same, first := g.join("job-1", "f")
		if first || same != call {
			t.Fatal("a concurrent call is not shared")
		}
		waiting.Go(func() {
			<-same.done
			if same.placement.Node != "a" {
				t.Errorf("placement %+v", same.placement)
			}
		})
	}
	if _, first := g.join("job-2", "f"); !first {
		t.Error("the call for another job is shared")
	}
	call.placement = Placement{Node: "a"}
	g.finish("job-1", call)
	waiting.Wait()
	if _, first := g.join("job-1", "f"); !first {
		t.Error("a call after the result is shared")
	}
}

// Of the waiting requests that a node can serve, the oldest is woken, and then the next one if it does not get the slot.
func TestWaitQueueWakesOldestRequestOfANode(t *testing.T) {
	t.Parallel()
	fl := fleet.New(time.Hour)
	q := newWaitQueue(fl, pick.New(fl, pick.Policy{SampleK: 20, ScanMax: 512, StaleAfter: time.Hour, CPUMax: 1, GPUMax: 1, MemoryMax: 1}, nil))
	declared := &core.Node{
		ID: "a", Epoch: 1, Revision: 1, Version: 1, Health: core.HealthReady, MaxJobs: 1, Callback: "http://a",
		Capability: core.Capability{Semantic: core.NewLangSet("en", "zh"), AnyPair: true},
	}
	fl.Update(store.NodeStatus{Node: declared, Load: core.UnknownLoad, Occupancy: store.Occupancy{Max: 1}})
	node := fl.Node("a")

	base := time.Now()
	enter := func(after time.Duration, src, tgt core.Lang) *waiter {
		return q.enter(&core.Spec{Direction: core.Direction{Src: src, Tgt: tgt}}, base.Add(after))
	}
	younger, other, oldest := enter(2*time.Second, "en", "zh"), enter(0, "fr", "de"), enter(time.Second, "en", "zh")
	woken := func() []*waiter {
		var list []*waiter
		for _, w := range []*waiter{oldest, younger, other} {
			select {
			case <-w.wake:
				list = append(list, w)
			default:
			}
		}
		return list
	}
	q.notifyFree(node)
	if got := woken(); len(got) != 1 || got[0] != oldest {
		t.Fatalf("%d requests woken, want the oldest that the node can serve", len(got))
	}
	q.wakeNext(oldest) // it did not get the slot
	if got := woken(); len(got) != 1 || got[0] != younger {
		t.Fatalf("%d requests woken, want the next one", len(got))
	}
	q.leave(younger, "a") // it got the slot
	if got := woken(); len(got) != 0 {
		t.Errorf("%d requests woken for a slot that was taken", len(got))
	}
	q.notifyFree(node)
	q.leave(oldest, "b") // woken, but placed on another node: no request is left that the node can serve
	if got := woken(); len(got) != 1 || got[0] != oldest {
		t.Errorf("%d requests woken", len(got))
	}
	if n := q.count.Load(); n != 1 {
		t.Errorf("%d requests wait, want 1", n)
	}
}
