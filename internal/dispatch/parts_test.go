package dispatch

import (
	"sync"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/core"
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
	call, first := g.join("job-1", "f", false)
	if !first {
		t.Fatal("the first call is not the first")
	}
	var waiting sync.WaitGroup
	for range 5 {
		same, first := g.join("job-1", "f", false)
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
	if _, first := g.join("job-2", "f", false); !first {
		t.Error("the call for another job is shared")
	}
	call.placement = Placement{Node: "a"}
	g.finish("job-1", call)
	waiting.Wait()
	if _, first := g.join("job-1", "f", false); !first {
		t.Error("a call after the result is shared")
	}
}
