package nodeconn

import (
	"testing"
)

// TestGracePeriodOfEachDisconnect: the end of the grace period of one disconnect does not end that of a later one.
func TestGracePeriodOfEachDisconnect(t *testing.T) {
	t.Parallel()
	c := NewConns(Options{})
	first, second := &conn{id: "n1"}, &conn{id: "n1"}
	c.add(first)
	c.remove(first)
	c.add(second)
	if c.endGrace(first) {
		t.Error("the node is connected, and lost because of an earlier disconnect")
	}
	c.remove(second)
	if c.endGrace(first) {
		t.Error("the grace period of the first disconnect ended that of the second")
	}
	if !c.endGrace(second) {
		t.Error("the node did not reconnect, and is not lost")
	}
	if c.endGrace(second) {
		t.Error("the node is lost twice")
	}
}

// TestNodeDecisionsAreSerialised: a node that reconnects and the end of its grace period do not both take effect.
func TestNodeDecisionsAreSerialised(t *testing.T) {
	t.Parallel()
	c := NewConns(Options{})
	unlock := c.lockNode("n1")
	locked := make(chan struct{})
	go func() {
		defer c.lockNode("n1")()
		close(locked)
	}()
	c.lockNode("n2")() // another node has another lock
	select {
	case <-locked:
		t.Error("two callers have the lock")
	default:
	}
	unlock()
	<-locked
	unlock = c.lockNode("n1")
	unlock()
	if n := len(c.locks); n != 0 {
		t.Errorf("%d locks are kept", n)
	}
}
