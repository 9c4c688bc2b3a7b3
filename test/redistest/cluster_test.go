package redistest

import (
	"errors"
	"fmt"
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
	eventually(t, answerTimeout, func() error {
		if counted[0].Load() == 0 {
			return errors.New("there is no load")
		}
		return nil
	})
	from := c.Owner(slot)
	for _, to := range []*Server{c.Primaries()[0], c.Primaries()[1], c.Primaries()[2], from, from} {
		c.MoveSlot(slot, to)
		if c.Owner(slot) != to {
			t.Fatal("the slot did not move")
		}
	}
	ended.Store(true)
	load.Wait()

	for i := range keys {
		want := counted[i].Load()
		if got, err := doRedirected(t, from.Addr(), "GET", key(i)); err != nil || got != fmt.Sprint(want) {
			t.Errorf("%s is %v, %v; want %d", key(i), got, err, want)
		}
	}
}
