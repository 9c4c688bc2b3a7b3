package redistest

import (
	"fmt"
	"slices"
	"strconv"
)

// Slot is the slot of a key.
func (c *Cluster) Slot(key string) int {
	c.tb.Helper()
	slot, _ := atWork(c.nodes)[0].must("CLUSTER", "KEYSLOT", key).(int64)
	return int(slot)
}

// MoveSlot gives a slot and its keys to another primary, while clients go on using it: they are told ASK while it
// moves and MOVED afterwards. It returns when all nodes know the new owner.
func (c *Cluster) MoveSlot(slot int, to *Server) {
	c.tb.Helper()
	from := c.Owner(slot)
	switch {
	case from == nil || !slices.Contains(c.Primaries(), to):
		c.tb.Fatalf("slot %d can only move from one primary to another; call WaitHealthy first", slot)
	case from == to:
		return
	}
	number := strconv.Itoa(slot)
	to.must("CLUSTER", "SETSLOT", number, "IMPORTING", c.ids[from])
	from.must("CLUSTER", "SETSLOT", number, "MIGRATING", c.ids[to])
	for migrate(from, to, number) {
	}
	// The new owner is told first: were it the old one, there would for a moment be none.
	to.must("CLUSTER", "SETSLOT", number, "NODE", c.ids[to])
	from.must("CLUSTER", "SETSLOT", number, "NODE", c.ids[to])
	for _, node := range c.Primaries() {
		if node != from && node != to {
			node.must("CLUSTER", "SETSLOT", number, "NODE", c.ids[to])
		}
	}
	eventually(c.tb, startTimeout, func() error { return c.known(slot, to) })
}

// migrate moves a batch of a slot's keys and reports whether there were any. A slot that is being moved gets no
// new keys at its old place, so it is empty in the end.
func migrate(from, to *Server, slot string) bool {
	from.tb.Helper()
	batch, _ := from.must("CLUSTER", "GETKEYSINSLOT", slot, "20").([]any)
	if len(batch) == 0 {
		return false
	}
	command := []string{"MIGRATE", "127.0.0.1", strconv.Itoa(to.port), "", "0", "4000", "KEYS"}
	for _, key := range batch {
		command = append(command, fmt.Sprint(key))
	}
	from.must(command...)
	return true
}

// known says which running node does not yet know a slot's owner.
func (c *Cluster) known(slot int, owner *Server) error {
	for _, node := range atWork(c.nodes) {
		view, err := node.view()
		if err != nil {
			return err
		}
		if ownersIn(view)[slot] != c.ids[owner] {
			return fmt.Errorf("%s does not yet know that %s owns slot %d", node.Addr(), owner.Addr(), slot)
		}
	}
	return nil
}
