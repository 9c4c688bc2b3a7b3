package server

import (
	"testing"
)

// TestEveryCutHasItsGrace: the end of the grace of an earlier cut says nothing about a later one.
func TestEveryCutHasItsGrace(t *testing.T) {
	t.Parallel()
	l := NewNodeConns(nil, nil)
	first, second := &nodeLink{id: "n1"}, &nodeLink{id: "n1"}
	l.enter(first)
	l.leave(first)
	l.enter(second)
	if l.lost(first) {
		t.Error("it is connected, and lost because it was cut before")
	}
	l.leave(second)
	if l.lost(first) {
		t.Error("the grace of the first cut ended that of the second")
	}
	if !l.lost(second) {
		t.Error("it did not come back, and nobody says so")
	}
	if l.lost(second) {
		t.Error("its jobs are moved twice")
	}
}

// TestOneDecidesAboutANode: a node that comes back and the end of its grace are not both right.
func TestOneDecidesAboutANode(t *testing.T) {
	t.Parallel()
	l := NewNodeConns(nil, nil)
	done := l.decide("n1")
	entered := make(chan struct{})
	go func() {
		defer l.decide("n1")()
		close(entered)
	}()
	l.decide("n2")() // another node's is another matter
	select {
	case <-entered:
		t.Error("two decide at once")
	default:
	}
	done()
	<-entered
	done = l.decide("n1")
	done()
	if n := len(l.gates); n != 0 {
		t.Errorf("%d gates are kept", n)
	}
}
