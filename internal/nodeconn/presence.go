package nodeconn

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/store"
)

// presenceChecks is how often each connection is checked within the time that a node counts as present.
const presenceChecks = 60

// presence is what an instance knows of when a connected node was heard.
type presence struct {
	read    atomic.Bool  // something came since the last check
	renewed atomic.Int64 // when the node's presence was last renewed, by a heartbeat or the answer to a ping: Unix nanoseconds

	// Only the goroutine that reads the connection uses this: whether the last heartbeat has listed the node's jobs.
	lists bool
	// Only WatchPresence uses these.
	asked  time.Time // the first ping since something came
	pinged time.Time // the last one
	late   bool      // the last check found that nothing had come for too long
}

// recordRenewed records that the node's presence was renewed.
func (p *presence) recordRenewed() { p.renewed.Store(time.Now().UnixNano()) }

// isDue reports whether half of a presence has passed since the last renewal. A node that sends heartbeats as often as it is asked to is
// never due.
func (p *presence) isDue(now time.Time, lasts time.Duration) bool {
	return now.UnixNano()-p.renewed.Load() >= int64(lasts/2)
}

// WatchPresence keeps connected nodes present that send heartbeats less often than the presence lasts, until the context ends: it pings them,
// and their answers renew their presence. A connection on which pings are not answered, and nothing else comes, is aborted when the presence
// ends.
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

// checkPresence is one check of a connection. That it is dead is decided by the second check that finds it, so that what came while this
// process was suspended is read before.
func (s *Server) checkPresence(n *conn, now time.Time) {
	p := &n.presence
	if p.read.Swap(false) {
		p.asked, p.late = time.Time{}, false
	}
	switch {
	case !p.asked.IsZero() && now.Sub(p.asked) >= s.Presence/2:
		if p.late {
			s.Log.Info("aborted a connection: nothing comes from the node, and pings are not answered", "node_id", n.id)
			n.ws.Abort() // nobody would answer the closing handshake
		}
		p.late = true
	case p.isDue(now, s.Presence) && now.Sub(p.pinged) >= s.Presence/3:
		if p.asked.IsZero() {
			p.asked = now
		}
		p.pinged = now
		n.ws.Ping(nil)
	}
}

// handlePong renews the presence of a node that has answered a ping. It is called by the goroutine that reads the connection.
func (s *Server) handlePong(ctx context.Context, n *conn) {
	n.presence.read.Store(true)
	if !n.presence.isDue(time.Now(), s.Presence) {
		return
	}
	unknown, err := s.Nodes.KeepAlive(ctx, store.KeepAliveParams{Node: n.id, Epoch: n.currentEpoch(), Lists: n.presence.lists})
	if err != nil {
		return // it was counted; the next ping comes soon
	}
	n.presence.recordRenewed()
	if unknown {
		if e := s.readmit(ctx, n, store.Activity{}); e != nil {
			s.Log.Warn("a connected node could not be registered again; its next heartbeat registers it", "node_id", n.id, "error", e)
		}
	}
}
