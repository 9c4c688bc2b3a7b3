package nodeconn

import (
	"context"
	"time"
)

// A node that freezes keeps its connection open and says nothing. WatchSilence finds it: while a node has jobs it is pinged when nothing comes,
// and if it stays silent for much longer than it has ever taken to answer, it is recorded as disconnected, so that its jobs move. Its connection
// stays open. A node that is slow is not suspected, because its own answer times are the measure.
const (
	silenceInterval = 100 * time.Millisecond // between two checks
	silenceLate     = 250 * time.Millisecond // a check that is later than this shows that this process was suspended
	// silenceMajority is from how many nodes with jobs on not more than half are silent at once for reasons of their own.
	silenceMajority = 4
)

// WatchSilence looks for nodes that are silent although they have jobs, until the context ends.
func (s *Server) WatchSilence(ctx context.Context) {
	tick := time.NewTicker(silenceInterval)
	defer tick.Stop()
	var conns []*conn
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		// After an error of the store it may be this instance that is cut off, and readers may wait for the store.
		restart := now.Sub(last) > silenceInterval+silenceLate || s.Jobs.StoreFailedRecently()
		last = now
		conns = s.Conns.appendTo(conns[:0])
		s.checkSilence(conns, now, restart)
		clear(conns)
	}
}

// checkSilence is one check of all connections.
func (s *Server) checkSilence(conns []*conn, now time.Time, restart bool) {
	for _, n := range s.findSilent(conns, now, restart) {
		n.suspect()
	}
	for _, n := range conns {
		if n.mustRecord() {
			s.work.Go(func(ctx context.Context) { s.record(ctx, n) })
		}
	}
}

// findSilent returns the connections that are silent for too long, and pings those that are silent. If most nodes with jobs are silent at once,
// the fault is on this side, and none is returned.
func (s *Server) findSilent(conns []*conn, now time.Time, restart bool) (overdue []*conn) {
	works, quiet := 0, 0
	for _, n := range conns {
		v := n.check(now, restart, s.Presence)
		if v.ping {
			n.ws.Ping(nil)
		}
		if v.works {
			works++
		}
		if v.quiet {
			quiet++
		}
		if v.overdue {
			overdue = append(overdue, n)
		}
	}
	if works >= silenceMajority && 2*quiet > works {
		return nil
	}
	return overdue
}

// check checks a connection. With restart all counts begin again, as they do while its reader handles something.
func (n *conn) check(now time.Time, restart bool, presence time.Duration) verdict {
	p, handling := n.ws.Progress(), n.handling.Load()
	n.mu.Lock()
	defer n.mu.Unlock()
	v := n.watch.check(now, p, restart || handling, presence)
	if v.heard {
		n.link.wanted = linkOpen
	}
	return v
}

func (n *conn) suspect() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.watch.suspect() {
		n.link.wanted = linkSilent
	}
}
