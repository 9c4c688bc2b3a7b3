package nodeconn

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/store"
)

// presenceChecks is how often each connection is checked within the time that a node counts as present.
const presenceChecks = 60

// quietAfter is after what time without a heartbeat a node is not kept present any more: what answers pings may not be what does the jobs.
const quietAfter = 2 * time.Minute

// presence is what an instance knows of when a connected node was heard.
type presence struct {
	renewed atomic.Int64 // when the node's presence was last renewed, by a heartbeat or the answer to a ping: Unix nanoseconds

	// Only the goroutine that reads the connection uses these: when the last heartbeat came and whether it has listed the node's jobs, and
	// when the answer to a ping was last to renew the presence.
	beat  time.Time
	lists bool
	tried time.Time
	// Only WatchPresence uses these.
	reads  uint64    // of the socket at the last check
	asked  time.Time // the first ping since something came
	pinged time.Time // the last one
	late   time.Time // the first check that found that nothing had come for too long
}

// recordBeat records a heartbeat, or a registration.
func (p *presence) recordBeat(lists bool) {
	p.beat, p.lists = time.Now(), lists
	p.renewed.Store(p.beat.UnixNano())
}

// isDue reports whether half of a presence has passed since the last renewal. A node that sends heartbeats as often as it is asked to is
// never due.
func (p *presence) isDue(now time.Time, lasts time.Duration) bool {
	return now.UnixNano()-p.renewed.Load() >= int64(lasts/2)
}

// WatchPresence keeps connected nodes present that send heartbeats less often than the presence lasts, until the context ends: it pings
// them, and their answers renew their presence. A connection on which pings are not answered, and nothing else comes, is aborted when the
// presence ends.
func (s *Server) WatchPresence(ctx context.Context) {
	tick := time.NewTicker(s.Presence / presenceChecks)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		for _, n := range s.Conns.all() {
			s.checkPresence(n, now)
		}
	}
}

// checkPresence is one check of a connection. That it is dead is found twice, so that what came while this process was suspended is read
// before. A node that does not read what was written is left to the limits of the socket: a ping waits behind that.
func (s *Server) checkPresence(n *conn, now time.Time) {
	p := &n.presence
	if reads := n.ws.Progress().Reads; reads != p.reads {
		p.reads, p.asked, p.late = reads, time.Time{}, time.Time{}
	}
	switch {
	case !p.asked.IsZero() && now.Sub(p.asked) >= s.Presence/2:
		if p.late.IsZero() {
			p.late = now
		}
		if now.Sub(p.late) >= s.Presence/30 && n.ws.AllWritten() {
			s.Log.Info("aborted a connection: nothing comes from the node, and pings are not answered", "node_id", n.id)
			n.ws.Abort() // nobody would answer the closing handshake
		}
	case p.isDue(now, s.Presence) && now.Sub(p.pinged) >= s.Presence/3:
		if p.asked.IsZero() {
			p.asked = now
		}
		p.pinged = now
		n.ws.Ping(nil)
	}
}

// handlePong renews the presence of a node that has answered a ping. It is called by the goroutine that reads the connection. A node that
// the store does not know, or knows in a later epoch, is left to its next heartbeat, which lists its jobs.
func (s *Server) handlePong(ctx context.Context, n *conn) {
	n.recordPong()
	n.handling.Store(true)
	defer n.handling.Store(false)
	p, now := &n.presence, time.Now()
	if !p.isDue(now, s.Presence) || now.Sub(p.tried) < s.Presence/4 || now.Sub(p.beat) > quietAfter {
		return
	}
	p.tried = now
	renewed, err := s.Nodes.KeepAlive(ctx, store.KeepAliveParams{Node: n.id, Epoch: n.currentEpoch(), Lists: p.lists})
	if err == nil && renewed {
		p.renewed.Store(now.UnixNano())
	}
}
