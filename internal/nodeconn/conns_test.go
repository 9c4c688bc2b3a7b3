package nodeconn

import (
	"context"
	"testing"
	"testing/synctest"
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

// TestAwaitRegistration: a job for a node that is being registered waits until its connection can be found, and no other job waits.
func TestAwaitRegistration(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := NewConns(Options{})
		if c.await(t.Context(), "n1", 2) != nil {
			t.Error("a node that is not here was found")
		}
		old, now := &conn{id: "n1", epoch: 1}, &conn{id: "n1", epoch: 2}
		c.add(old)
		end := c.beginAdmit("n1")
		if n := c.await(t.Context(), "n1", 1); n != old {
			t.Errorf("for the epoch of the connection: %v", n)
		}
		found := make(chan *conn, 1)
		go func() { found <- c.await(t.Context(), "n1", 2) }()
		synctest.Wait()
		if len(found) > 0 {
			t.Error("it did not wait for the registration")
		}
		leaves, cancel := context.WithCancel(t.Context())
		cancel()
		if n := c.await(leaves, "n1", 2); n != old {
			t.Errorf("after the end of the context: %v", n)
		}
		c.add(now)
		end()
		if n := <-found; n != now {
			t.Errorf("after the registration: %v", n)
		}
		if n := c.await(t.Context(), "n1", 3); n != now || len(c.admitting) != 0 {
			t.Errorf("for another epoch, when nothing is under way: %v, %d", n, len(c.admitting))
		}
	})
}
