package redistest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// doRedirected runs a command on a cluster and follows redirections.
func doRedirected(t *testing.T, addr string, args ...string) (any, error) {
	asking := false
	for {
		reply, err := doAt(t, addr, asking, args...)
		var redirection ReplyError
		if !errors.As(err, &redirection) {
			return reply, err
		}
		words := strings.Fields(string(redirection)) // MOVED or ASK, the slot, the address
		if words[0] != "MOVED" && words[0] != "ASK" {
			return reply, err
		}
		addr, asking = words[2], words[0] == "ASK"
	}
}

// doAt runs a command on one node; with asking also on a slot that the node is importing.
func doAt(t *testing.T, addr string, asking bool, args ...string) (any, error) {
	c, err := dial(t.Context(), addr, answerTimeout)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if asking {
		if _, err := c.do("ASKING"); err != nil {
			return nil, err
		}
	}
	return c.do(args...)
}

func TestClusterFailsOver(t *testing.T) {
	t.Parallel()
	c := StartCluster(t)
	if n := strings.Count(c.URL(), "127.0.0.1:"); n != 6 || !strings.HasPrefix(c.URL(), "redis-cluster://127.0.0.1:") {
		t.Errorf("URL %s", c.URL())
	}
	if n := len(c.Primaries()); n != 3 {
		t.Fatalf("%d primaries", n)
	}
	const keys = 300
	key := func(i int) string { return fmt.Sprintf("key-%d", i) }
	owned := make(map[*Server]int)
	for i := range keys {
		if _, err := doRedirected(t, c.Servers()[0].Addr(), "SET", key(i), key(i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 30 {
		owner := c.Owner(c.Slot(key(i)))
		owned[owner]++
		expect(t, owner.Do, key(i), "GET", key(i))
	}
	if len(owned) != 3 {
		t.Errorf("thirty keys went to %d primaries", len(owned))
	}
	for i, p := range c.Primaries() {
		if owner := c.Owner(i * slotCount / primaryCount); owner != p {
			t.Errorf("primary %d does not own the first of its slots", i)
		}
		// WAIT refers to the writes before the last command of its connection, by any client.
		con := connect(t, p.Addr())
		expect(t, con.do, "PONG", "PING")
		expect(t, con.do, int64(1), "WAIT", "1", "5000")
	}

	killed := c.KillPrimary(1)
	slot := slotCount / primaryCount
	if c.Owner(slot) == killed {
		t.Error("a killed node owns a slot")
	}
	c.WaitHealthy(failoverTimeout)
	successor := c.Owner(slot)
	if successor == nil || successor != c.Primaries()[1] {
		t.Fatal("no replica took over")
	}
	for i := range keys {
		if got, err := doRedirected(t, successor.Addr(), "GET", key(i)); err != nil || got != key(i) {
			t.Fatalf("%s is %v, %v after the failover", key(i), got, err)
		}
	}

	killed.Restart()
	c.WaitHealthy(failoverTimeout)
	if slices.Contains(c.Primaries(), killed) {
		t.Error("the killed server is primary again")
	}
}

// The cluster must be unhealthy at once, and not only when the other nodes have detected it.
func TestClusterWithoutShardIsUnhealthy(t *testing.T) {
	t.Parallel()
	c := StartCluster(t)
	primary := c.Primaries()[0]
	replica := c.Servers()[slices.Index(c.Servers(), primary)+primaryCount]
	replica.Kill()
	primary.Kill()
	if err := c.checkHealth(); err == nil {
		t.Error("a cluster with a dead shard counts as healthy")
	}
	if owner := c.Owner(0); owner != nil {
		t.Errorf("%s owns a slot of the dead shard", owner.Addr())
	}
	primary.Restart()
	replica.Restart()
	c.WaitHealthy(failoverTimeout)
	if owner := c.Owner(0); owner != primary && owner != replica {
		t.Error("the shard did not come back")
	}
}

// TestMoveSlotUnderLoad increments the keys of a slot while the slot moves to other primaries and back: no increment is
// lost.
func TestMoveSlotUnderLoad(t *testing.T) {
	t.Parallel()
	c := StartCluster(t)
	const keys, clients = 200, 2
	slot := c.Slot("{moving}")
	key := func(i int) string { return fmt.Sprintf("{moving}-%d", i) }
	for i := range keys {
		if _, err := doRedirected(t, c.Owner(slot).Addr(), "SET", key(i), "0"); err != nil {
			t.Fatal(err)
		}
	}

	var counted [keys]atomic.Int64
	var ended atomic.Bool
	var load sync.WaitGroup
	for client := range clients {
		entry := c.Servers()[client].Addr()
		load.Go(func() {
			for i := 0; !ended.Load(); i = (i + 1) % keys {
				if _, err := doRedirected(t, entry, "INCR", key(i)); err != nil {
					t.Errorf("INCR %s: %v", key(i), err)
					return
				}
				counted[i].Add(1)
			}
		})
	}
	defer load.Wait()
	defer ended.Store(true)
	from := c.Owner(slot)
	for _, to := range []*Server{c.Primaries()[0], c.Primaries()[1], c.Primaries()[2], from, from} {
		c.MoveSlot(slot, to)
		if c.Owner(slot) != to {
			t.Fatal("the slot did not move")
		}
	}
	ended.Store(true)
	load.Wait()

	total := int64(0)
	for i := range keys {
		want := counted[i].Load()
		if got, err := doRedirected(t, from.Addr(), "GET", key(i)); err != nil || got != fmt.Sprint(want) {
			t.Errorf("%s is %v, %v; want %d", key(i), got, err, want)
		}
		total += want
	}
	if total == 0 {
		t.Error("there was no load")
	}
	c.WaitHealthy(failoverTimeout)
}
