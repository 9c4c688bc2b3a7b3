package fairqueue

import (
	"maps"
	"slices"
	"strings"
)

// Beat says that an instance is alive. It returns how many waiters the queue has of it.
func (q *Queue) Beat(now int64, id string) BeatResult {
	q.open(now)
	if q.instances[id] != nil {
		q.beatOf(id, now)
	}
	q.handleTimers(now)
	defer q.end()
	r := BeatResult{Freed: q.freed}
	q.freed = false
	if in := q.instances[id]; in != nil {
		r.Waiters = in.waiters
	}
	return r
}

// begin begins a call, and end ends it.
func (q *Queue) begin(now int64) {
	q.open(now)
	q.handleTimers(now)
}

// open opens the queue for a call. While there are waiters their instances call all the time: if nobody has, the store did not answer, and
// no instance is taken for dead before it could call again. A queue whose virtual time is too high begins anew.
func (q *Queue) open(now int64) {
	if q.virtual > MaxVirtual {
		*q = *New()
	}
	if q.lastCall > 0 && now-q.lastCall > StallMS {
		q.judgeAfter = now + SilenceMS
	}
	q.lastCall = now
}

// end ends a call. A queue that has forgotten everything begins anew.
func (q *Queue) end() {
	if len(q.classes) == 0 && len(q.timers.sorted) == 0 {
		q.lastCall, q.judgeAfter, q.freed = 0, 0, false
	}
}

// handleTimers does what is due: offers are taken back, waiters of dead instances removed, and what is not needed is forgotten.
func (q *Queue) handleTimers(now int64) {
	for _, due := range q.timers.due(now) {
		if _, there := q.timers.byName[due.name]; !there {
			continue // another one has removed it
		}
		q.timers.remove(due.name)
		name := due.name[1:]
		switch due.name[:1] {
		case timerOffer:
			q.takeBack(now, q.offers[name])
			q.freed = true
		case timerFlow:
			class, tenant, _ := strings.Cut(name, "|")
			delete(q.flows, flowKey{class, tenant})
		case timerTenant:
			delete(q.tenants, name)
		case timerClass:
			delete(q.classes, name)
			if len(q.classes) == 0 {
				q.virtual = 0
			}
		case timerInstance:
			q.judge(now, name)
		}
	}
}

// judge removes waiters of an instance if it is dead, and sets its timer again otherwise.
func (q *Queue) judge(now int64, id string) {
	in := q.instances[id]
	switch {
	case in == nil:
		return
	case !q.isDead(id, now):
		q.timers.set(timerInstance+id, max(in.beat+SilenceMS, q.judgeAfter))
		return
	}
	held := q.heldBy(id)
	for _, w := range held[:min(len(held), MaxDropped)] {
		q.take(w, now)
		q.leave(&w)
	}
	if len(held) > MaxDropped {
		q.timers.set(timerInstance+id, now)
	}
}

// heldBy returns the waiters of an instance that are in the queue, in the order of their members.
func (q *Queue) heldBy(id string) []Waiter {
	var held []Waiter
	for _, f := range q.flows {
		for _, w := range f.line {
			if w.Instance == id {
				held = append(held, w)
			}
		}
	}
	slices.SortFunc(held, func(a, b Waiter) int { return strings.Compare(a.Member(), b.Member()) })
	return held
}

// View returns a page of the flows that have waiters.
func (q *Queue) View(now int64, p ViewParams) View {
	v := View{Now: now}
	for _, id := range slices.Sorted(maps.Keys(q.classes)) {
		c := q.classes[id]
		listed := false
		for _, f := range c.turns {
			cursor := f.cursor()
			if cursor <= p.After {
				continue
			}
			if len(v.Flows) == p.Flows {
				v.More = true
				return v
			}
			if !listed {
				v.Classes = append(v.Classes, ClassView{ID: id, Requirements: c.requirements, Waiting: c.waiting,
					Interval: c.meter.Interval})
				listed = true
			}
			t := q.tenants[f.tenant]
			v.Flows = append(v.Flows, FlowView{
				Class: id, Tenant: f.tenant, Cursor: cursor, Waiting: len(f.line), Interval: f.meter.Interval, Weight: t.weight,
				TenantWaiting: t.waiting,
				Granted:       t.granted, Entitled: t.entitled, Accrued: int64(f.weight) * (c.contests - f.contested),
				Waiters: slices.Clone(f.line[:min(len(f.line), p.Waiters)]),
			})
		}
	}
	return v
}
