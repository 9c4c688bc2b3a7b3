package nodeconn

import (
	"context"
	"errors"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/wire"
)

// linkState is what instances have to know of the connection of a node.
type linkState int

const (
	linkOpen    linkState = iota
	linkSilent            // nothing comes although the node has jobs
	linkLost              // it has ended
	linkUnknown           // what the store has is not known, because a reply did not come
)

// link is the state of a connection, as it is and as the store has it. The connection's lock guards it. One goroutine at a time records it,
// so that an earlier state is never recorded after a later one.
type link struct {
	wanted, recorded linkState
	recording        bool
}

// want sets the state, unless the connection has ended.
func (l *link) want(state linkState) {
	if l.wanted != linkLost {
		l.wanted = state
	}
}

// begin reports whether the caller has to call Server.record.
func (l *link) begin() bool {
	if l.recording || l.wanted == l.recorded {
		return false
	}
	l.recording = true
	return true
}

// mustRecord reports whether the caller has to call Server.record.
func (n *conn) mustRecord() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.link.begin()
}

// nextLink returns the state to record, and for how long the node has been silent. It reports false, and the recording has ended, if there
// is nothing to record.
func (n *conn) nextLink() (state linkState, silence time.Duration, more bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.link.wanted == n.link.recorded {
		n.link.recording = false
		return 0, 0, false
	}
	return n.link.wanted, time.Since(n.watch.silent), true
}

func (n *conn) setRecorded(state linkState) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.link.recorded = state
}

// lose records that the connection has ended.
func (n *conn) lose() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.link.want(linkLost)
}

// recordBackoff is between two tries to record the state of a connection.
var recordBackoff = run.Backoff{Min: 20 * time.Millisecond, Max: 500 * time.Millisecond}

// record records the state of a connection in the store, until the store has the latest one. After mustRecord one goroutine calls it.
func (s *Server) record(ctx context.Context, n *conn) {
	recordBackoff.Retry(ctx, func() error {
		for {
			state, silence, more := n.nextLink()
			if !more {
				return nil
			}
			err := s.recordLink(ctx, n, state, silence)
			if err != nil {
				n.setRecorded(linkUnknown)
				return err
			}
			n.setRecorded(state)
		}
	})
}

// recordLink records one state of a connection. The store ignores what is about an earlier connection or epoch.
func (s *Server) recordLink(ctx context.Context, n *conn, state linkState, silence time.Duration) error {
	switch state {
	case linkLost:
		if !s.Conns.isLost(n) { // it has reconnected, or the grace period is over and the node is lost
			return nil
		}
		return s.Nodes.Disconnected(ctx, n.id, n.currentEpoch(), n.connection)
	case linkSilent:
		return s.Nodes.Silent(ctx, n.id, n.currentEpoch(), n.connection, silence)
	}
	err := s.Nodes.Heard(ctx, n.id, n.currentEpoch(), n.connection)
	var e *wire.Error
	if errors.As(err, &e) && e.Code == wire.StaleEpoch {
		return nil // it has registered elsewhere, or left
	}
	return err
}
