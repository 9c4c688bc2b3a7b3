package dispatch

import (
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// awaitRoom waits until the limits of the tenant admit the request, and places it. It returns the refusal by a limit when the time is over,
// or would be before a rate admits the request, and any other refusal at once.
func (x *waitingRequest) awaitRoom(id core.JobID, fingerprint string, e *wire.Error) (Placement, *wire.Error) {
	rooms := x.d.limits.rooms
	w := rooms.join(roomKeyOf(x.request), x.wait.Until, tenantRefusal{e, x.request.limit})
	if w == nil {
		return Placement{}, wire.Errorf(wire.QueueFull,
			"too many requests wait for the limits of their tenants: try again later").RetryIn(time.Second)
	}
	x.request.admitted = func() { rooms.leave(w, true) } // the next one need not wait until this one is placed
	defer func() {
		x.request.admitted = nil
		rooms.leave(w, false)
	}()
	for {
		if !x.awaitTurn(w) {
			return Placement{}, x.gaveUp()
		}
		over := !time.Now().Before(x.wait.Until) || x.d.isLeaving(x.request)
		if first, _ := rooms.turn(w); !first {
			if !over {
				rooms.wakeFirst(w.key) // another one came before it
				continue
			}
			why, _ := rooms.refusal(w.key)
			x.request.limit = why.limit
			return Placement{}, why.err
		}
		p, e := x.try(id, fingerprint, "")
		if e == nil || e.Code != wire.RateLimited {
			return p, e
		}
		if !rooms.refused(w, tenantRefusal{e, x.request.limit}) || over || !time.Now().Before(x.waitEnds(e)) {
			return Placement{}, e
		}
	}
}

// awaitTurn waits until the request should be tried: it is the first of its line and there may be room, or it waits no longer. A wait that
// takes long is announced. It returns false if the caller has left.
func (x *waitingRequest) awaitTurn(w *roomWaiter) bool {
	asleep := time.Now()
	defer func() { x.waited += time.Since(asleep) }()
	_, askAt := x.d.limits.rooms.turn(w)
	ask, over, announce := time.NewTimer(time.Until(askAt)), time.NewTimer(time.Until(x.wait.Until)), time.NewTimer(announceAfter)
	defer ask.Stop()
	defer over.Stop()
	defer announce.Stop()
	for {
		select {
		case <-w.wake:
			return true
		case <-ask.C:
			if first, _ := x.d.limits.rooms.turn(w); first {
				return true
			}
		case <-announce.C:
			if !x.announced && x.wait.Announce != nil {
				x.announced = true
				x.wait.Announce(EstimateUnknown)
			}
		case <-over.C:
			return true
		case <-x.stopped():
			return true
		case <-x.ctx.Done():
			return false
		}
	}
}
