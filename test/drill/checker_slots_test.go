package drill

import (
	"time"

	"github.com/lingua-scheduler/lingua/test/clustertest/journal"
)

// checkEmptySlots checks that no slot which could be reserved stayed empty while a request waited that could use it.
func (c *waitingChecker) checkEmptySlots() {
	waiting := c.waitingByDirection()
	byNode := groupBySource(c.nodes)
	for node, kind := range c.kinds {
		var wanted []span
		for direction, w := range waiting {
			if kind.Serves(direction[0], direction[1]) {
				wanted = append(wanted, w...)
			}
		}
		usable := unite(wanted...).intersect(c.free[node]).intersect(c.usable(byNode[node]))
		for _, empty := range emptySlots(byNode[node], kind.Slots) {
			for _, s := range (spans{empty}).intersect(usable) {
				c.addEmpty(node, s)
			}
		}
	}
}

// addEmpty records a slot that stayed empty.
func (c *waitingChecker) addEmpty(node string, s span) {
	took := time.Duration(s.to - s.from - c.stalledBetween(s.from, s.to))
	phase, limit := "calm", emptyInCalm
	for _, i := range c.injections {
		if s.from < i.to+int64(settleTime) && s.to > i.from {
			phase, limit = i.name, emptyAfterFault
		}
	}
	c.longestEmpty[phase] = max(c.longestEmpty[phase], took)
	if took > limit+c.slack {
		c.addViolation(emptySlot, "%v of %s, from %s, in the phase %s", took.Round(time.Millisecond), node, logTime(journal.Entry{At: s.from}), phase)
	}
}

// waitingByDirection returns when requests waited that could have used a slot. Those of tenants that have a limit do not count: they may have
// waited for their limit. Nor do requests count while their instance is stopped.
func (c *waitingChecker) waitingByDirection() map[[2]string]spans {
	assigned := make(map[string]int64)
	for _, e := range c.nodes {
		if _, known := assigned[e.Job]; e.Kind == journal.JobAssigned && !known {
			assigned[e.Job] = e.At
		}
	}
	found := make(map[[2]string][]span)
	for _, w := range c.sent {
		if _, limited := c.limits[w.tenant]; limited {
			continue
		}
		s := span{w.begins, w.deadline()}
		if w.end.Kind != "" {
			s.to = min(s.to, w.end.At)
		}
		if at, known := assigned[w.job]; known {
			s.to = min(s.to, at)
		}
		if s.from < s.to {
			key := [2]string{w.src, w.tgt}
			found[key] = append(found[key], (spans{s}).without(c.faultsOf(w.instanceName()))...)
		}
	}
	waiting := make(map[[2]string]spans)
	for direction, list := range found {
		waiting[direction] = unite(list...)
	}
	return waiting
}

// faultsOf returns when an instance did not run.
func (c *waitingChecker) faultsOf(instance string) spans {
	var found []span
	for _, i := range c.injections {
		if i.target == instance {
			found = append(found, span{i.from, i.to})
		}
	}
	return unite(found...)
}

// usable returns when a node was registered through an instance that ran.
func (c *waitingChecker) usable(entries []journal.Entry) spans {
	var found []span
	address, since := "", int64(0)
	end := func(at int64) {
		if since > 0 {
			instance := c.routes[1].InstanceOf(address, since)
			found = append(found, (spans{{since, at}}).without(c.faultsOf(instance))...)
		}
		since = 0
	}
	for _, e := range entries {
		switch e.Kind {
		case journal.Connected:
			end(e.At)
			address = e.Code
		case journal.NodeRegistered:
			end(e.At)
			since = e.At
		case journal.NodeStopped:
			end(e.At)
		}
	}
	if len(entries) > 0 {
		end(entries[len(entries)-1].At)
	}
	return unite(found...)
}

// emptySlots returns when slots of a node were empty, as the node saw it. A job takes the slot that has been empty longest.
func emptySlots(entries []journal.Entry, slots int) []span {
	if len(entries) == 0 {
		return nil
	}
	var found []span
	var empty []int64 // since when
	for range slots {
		empty = append(empty, entries[0].At)
	}
	held := make(map[attempt]bool)
	for _, e := range entries {
		key := attempt{e.Job, e.Attempt}
		switch e.Kind {
		case journal.JobAssigned, journal.WorkStarted:
			if !held[key] && len(empty) > 0 {
				found = append(found, span{empty[0], e.At})
				empty = empty[1:]
				held[key] = true
			}
		case journal.WorkEnded, journal.WorkCancelled, journal.JobRejected:
			if held[key] {
				delete(held, key)
				empty = append(empty, e.At)
			}
		}
	}
	for _, since := range empty {
		found = append(found, span{since, entries[len(entries)-1].At})
	}
	return found
}
