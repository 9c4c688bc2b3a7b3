package nodeconn

import (
	"context"
	"time"
)

// A node that freezes keeps its connection open and says nothing. WatchSilence finds it: while a node has jobs it is pinged when nothing
// comes, and if it stays silent for much longer than it has ever taken to answer, it is recorded as disconnected, so that its jobs move.
// Its connection stays open. A node that is slow is not suspected, because its own answer times are the measure.
//
// silenceMajority is from how many nodes with jobs on not more than half are silent at once for reasons of their own.
const silenceMajority = 4

// WatchSilence looks for nodes that are silent although they have jobs, until the context ends.
func (s *Server) WatchSilence(ctx context.Context) {
	tick := time.NewTicker(silenceInterval)
	defer tick.Stop()
	var conns []*conn
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		conns = s.Conns.appendTo(conns[:0])
		// After an error of the store it may be this instance that is cut off, and readers may wait for the store.
		s.checkSilence(conns, time.Now(), s.Jobs.StoreFailedRecently())
		clear(conns)
	}
}

// checkSilence is one check of all connections.
func (s *Server) checkSilence(conns []*conn, now time.Time, unread bool) {
	for _, n := range s.findSilent(conns, now, unread) {
		disconnected, known := s.Nodes.IsDisconnected(n.id)
		if n.suspect(known && !disconnected) {
			s.work.Go(func(ctx context.Context) { s.record(ctx, n) })
		}
	}
}

// findSilent returns the connections that are silent for too long, and pings those that are silent. If most nodes with jobs are silent at
// once, the fault is on this side, and none is returned.
func (s *Server) findSilent(conns []*conn, now time.Time, unread bool) (overdue []*conn) {
	works, quiet := 0, 0
	for _, n := range conns {
		v := n.check(now, unread, s.Presence)
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
		if v.heard && n.mustRecord() {
			s.work.Go(func(ctx context.Context) { s.record(ctx, n) })
		}
	}
	if works >= silenceMajority && 2*quiet > works {
		return nil
	}
	return overdue
}

// check checks a connection. unread says that what the node has sent may not have been read; nor may it while the reader handles something.
func (n *conn) check(now time.Time, unread bool, presence time.Duration) verdict {
	if n.skip(now) {
		return verdict{}
	}
	p, handling := n.ws.Progress(), n.handling.Load()
	n.mu.Lock()
	defer n.mu.Unlock()
	v := n.watch.check(now, p, unread || handling, presence)
	if v.heard {
		n.link.want(linkOpen)
	}
	return v
}

// skip reports whether there is nothing to check.
func (n *conn) skip(now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.watch.isIdle() {
		return false
	}
	n.watch.checked = now
	return true
}

// suspect makes the connection count as silent. It reports whether that is to be recorded; again if the record is lost, as in a failover.
func (n *conn) suspect(recordLost bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.watch.suspect():
		n.link.want(linkSilent)
	case recordLost && n.link.recorded == linkSilent:
		n.link.recorded = linkUnknown
	}
	return n.link.begin()
}
