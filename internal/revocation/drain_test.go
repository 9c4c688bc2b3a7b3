package revocation_test

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestDrainsAreRemembered: an instance that has read a drain puts it back when the store has lost it, and remembers that the node was
// resumed. A drain is no revocation.
func TestDrainsAreRemembered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTestStore(t)
		here, there := follow(t, s, nil), follow(t, s, nil)
		if err := here.RecordDrain(t.Context(), "node-1", true); err != nil {
			t.Fatal(err)
		}
		if !here.NodeDrained("node-1") || here.NodeDrained("node-2") || here.NodeNameRevoked("node-1") || len(here.Entries()) != 0 {
			t.Errorf("node-1 %v, node-2 %v, revoked %v, entries %v", here.NodeDrained("node-1"), here.NodeDrained("node-2"), here.NodeNameRevoked("node-1"), here.Entries())
		}
		time.Sleep(2 * time.Second)
		s.failOver()
		time.Sleep(2 * time.Second)
		if !there.NodeDrained("node-1") || !newFollower(t, s).NodeDrained("node-1") {
			t.Error("the drain is forgotten after a loss")
		}
		if err := there.RecordDrain(t.Context(), "node-1", false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		s.failOver()
		time.Sleep(2 * time.Second)
		if here.NodeDrained("node-1") || newFollower(t, s).NodeDrained("node-1") {
			t.Error("a drain that was ended is back after a loss")
		}
		s.down.Store(true)
		if err := here.RecordDrain(t.Context(), "node-1", true); err == nil || here.NodeDrained("node-1") {
			t.Errorf("while the store is away: %v, drained %v", err, here.NodeDrained("node-1"))
		}
	})
}
