package fairqueue

// Offer offers up to n slots of a node that can serve these classes to the waiters whose turn it is.
func (q *Queue) Offer(now int64, n int, classes []string) OfferResult {
	q.begin(now)
	defer q.end()
	var r OfferResult
	dropped := 0
	asked := unique(classes[:min(len(classes), MaxAsked)])
	limit := min(n, MaxOffers, MaxCompared/max(len(asked), 1))
	r.More = limit < min(n, MaxOffers)
	for len(r.Offers) < limit {
		lead := q.next(now, asked, &dropped)
		c := q.mostUrgent(now, lead, asked, &dropped)
		if c == nil {
			r.More = dropped >= MaxDropped
			break
		}
		r.Offers = append(r.Offers, q.grant(now, lead, c, asked))
	}
	return r
}

// unique returns texts without repetitions, in the order of the first ones.
func unique(texts []string) []string {
	seen := make(map[string]bool, len(texts))
	kept := make([]string, 0, len(texts))
	for _, text := range texts {
		if !seen[text] {
			seen[text] = true
			kept = append(kept, text)
		}
	}
	return kept
}

// next returns the class of the flow whose turn it is; nil: nobody waits in the classes, or too many waiters were dropped. Only the flow
// that is chosen is checked for waiters that cannot be served.
func (q *Queue) next(now int64, asked []string, dropped *int) *class {
	for *dropped < MaxDropped {
		var best *class
		for _, id := range asked {
			if c := q.classes[id]; c != nil && len(c.turns) > 0 && (best == nil || isBefore(c, best)) {
				best = c
			}
		}
		if best == nil {
			return nil
		}
		for first := best.turns[0]; len(first.line) > 0 && *dropped < MaxDropped; {
			if q.checkFirst(now, first, dropped) {
				return best
			}
		}
	}
	return nil
}

// mostUrgent returns, of the asked classes in which the tenant waits whose turn it is, the one where its first waiter has the earliest
// deadline. Its tags rise together, so by its tags one class could be served always and another never. It compares MaxUrgent classes: lead,
// and the first others of those asked. It returns nil if too many waiters were dropped.
func (q *Queue) mostUrgent(now int64, lead *class, asked []string, dropped *int) *class {
	if lead == nil {
		return nil
	}
	for *dropped < MaxDropped {
		best, compared := lead.turns[0], 1
		for _, id := range asked {
			f := q.flows[flowKey{id, best.tenant}]
			if id == lead.id || f == nil || len(f.line) == 0 {
				continue
			}
			if compared == MaxUrgent {
				break
			}
			compared++
			if f.line[0].Deadline < best.line[0].Deadline {
				best = f
			}
		}
		if q.checkFirst(now, best, dropped) {
			return q.classes[best.class]
		}
	}
	return nil
}

// isBefore reports whether the next flow of a class comes before that of another.
func isBefore(a, b *class) bool {
	x, y := a.turns[0], b.turns[0]
	tagX, tagY := x.tag+a.offset, y.tag+b.offset
	return tagX < tagY || tagX == tagY && x.filed < y.filed
}

// checkFirst reports whether the first waiter of a flow can be served. One that has expired, or whose instance is dead, is removed.
func (q *Queue) checkFirst(now int64, f *flow, dropped *int) bool {
	w := f.line[0]
	if w.Deadline > now && !q.isDead(w.Instance, now) {
		return true
	}
	q.take(w, now)
	q.leave(&w)
	*dropped++
	return false
}

// moveOn moves the virtual time of a class on to the lowest tag of its flows. One that is too high raises that of the pool, so that the
// queue begins anew.
func (q *Queue) moveOn(c *class) {
	c.virtual = max(c.virtual, c.turns[0].tag)
	if c.virtual > MaxVirtual {
		q.virtual = max(q.virtual, c.virtual)
	}
}

// grant offers a slot to the first waiter that a tenant has in a class, and charges the tenant in every asked class in which it waits. It
// is its turn because of its tag in the class lead.
func (q *Queue) grant(now int64, lead, c *class, asked []string) Offer {
	f := q.flows[flowKey{c.id, lead.turns[0].tenant}]
	t := q.tenants[f.tenant]
	w := f.line[0]
	charge := int64(Unit / t.weight)
	o := &offer{Waiter: w, expires: now + OfferMS, filed: f.filed, charge: charge}

	q.moveOn(lead)
	q.virtual = max(q.virtual, lead.virtual+lead.offset)
	lead.offset = max(lead.offset, q.virtual-MaxLag*charge-lead.virtual)
	t.finish = max(t.finish, lead.turns[0].tag+charge+lead.offset)
	q.moveOn(c)
	c.offset = max(c.offset, q.virtual-MaxLag*charge-c.virtual)
	if len(c.turns) > 1 {
		o.contest = ShareScale / int64(c.weights)
		c.contests += o.contest
		t.granted++
	}
	q.settle(c, f)
	for _, id := range asked {
		d, g := q.classes[id], q.flows[flowKey{id, f.tenant}]
		if d != nil && g != nil && len(g.line) > 0 {
			d.setTag(g, g.tag+charge)
			o.charged = append(o.charged, id)
		}
	}
	q.take(w, now)
	name := w.Member()
	q.offers[name] = o
	q.timers.set(timerOffer+name, o.expires)
	return Offer{Waiter: w, ExpiresAt: o.expires}
}

// Return takes an offer back, because no slot of the node was free. The waiter gets its place again, unless it has expired. It reports
// whether the waiter is in the queue.
func (q *Queue) Return(now int64, w Waiter) bool {
	q.begin(now)
	defer q.end()
	if o := q.offers[w.Member()]; o != nil {
		return q.takeBack(now, o)
	}
	f := q.flows[flowKey{w.Class, w.Tenant}]
	if f == nil {
		return false
	}
	_, there := f.position(w)
	return there
}

// takeBack takes an offer back, and reports whether the waiter is in the queue again.
func (q *Queue) takeBack(now int64, o *offer) bool {
	q.endOffer(o)
	q.refund(o)
	c, f, t := q.classes[o.Class], q.flows[flowKey{o.Class, o.Tenant}], q.tenants[o.Tenant]
	if c == nil || f == nil || t == nil || o.Deadline <= now || q.isDead(o.Instance, now) {
		q.leave(&o.Waiter)
		return false
	}
	q.put(c, f, t, o.Waiter, o.filed)
	return true
}

func (q *Queue) endOffer(o *offer) {
	name := o.Member()
	delete(q.offers, name)
	q.timers.remove(timerOffer + name)
}

// refund takes back what an offer has charged. What it has charged to flows that are forgotten is forgotten too.
func (q *Queue) refund(o *offer) {
	for _, id := range o.charged {
		g := q.flows[flowKey{id, o.Tenant}]
		if g == nil {
			continue
		}
		if len(g.line) > 0 {
			q.classes[id].setTag(g, max(g.tag-o.charge, 0))
		} else {
			g.tag = max(g.tag-o.charge, 0)
		}
	}
	if t := q.tenants[o.Tenant]; t != nil {
		t.finish = max(t.finish-o.charge, 0)
		if o.contest > 0 {
			t.granted--
		}
	}
	if c := q.classes[o.Class]; c != nil {
		c.contests -= o.contest
	}
}

// Dequeue removes a waiter, because it was served or gives up. The same call may be repeated.
func (q *Queue) Dequeue(now int64, w Waiter, served bool) {
	q.begin(now)
	defer q.end()
	f := q.flows[flowKey{w.Class, w.Tenant}]
	if o := q.offers[w.Member()]; o != nil {
		q.endOffer(o)
		q.leave(&w)
		if !served {
			q.refund(o)
			q.freed = true
			return
		}
		q.countGrant(now, &w)
		return
	}
	if f == nil {
		return
	}
	if _, there := f.position(w); !there {
		return
	}
	if served { // its offer was taken back while the slot was reserved
		c, t := q.classes[w.Class], q.tenants[w.Tenant]
		charge := int64(Unit / t.weight)
		t.finish = max(t.finish, f.tag+charge+c.offset)
		c.setTag(f, f.tag+charge)
		q.countGrant(now, &w)
	}
	q.take(w, now)
	q.leave(&w)
}

// countGrant measures the interval since the last grant.
func (q *Queue) countGrant(now int64, w *Waiter) {
	if c := q.classes[w.Class]; c != nil {
		c.meter.grant(now, ClassGrants)
	}
	if f := q.flows[flowKey{w.Class, w.Tenant}]; f != nil {
		f.meter.grant(now, FlowGrants)
	}
}
