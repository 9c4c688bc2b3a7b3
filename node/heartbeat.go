package node

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

const healthDraining = "draining"

var errNoAnswer = errors.New("the scheduler does not answer pings")

// duties are what is to be done from time to time as long as there is a connection: heartbeats, and sending again what was
// not acknowledged.
func (n *Node) duties(ctx context.Context) {
	beat := time.NewTimer(n.untilBeat())
	defer beat.Stop()
	again := time.NewTicker(n.pace.resend / 3)
	defer again.Stop()
	last := time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
			n.repeat()
		case <-beat.C:
			n.heartbeat()
			last = time.Now()
			beat.Reset(n.untilBeat())
		case <-n.soon:
			beat.Reset(n.pace.haste - time.Since(last)) // which may have passed
		}
	}
}

// untilBeat is how long to wait for the next heartbeat. Nodes that started together do not beat together.
func (n *Node) untilBeat() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return near(n.interval)
}

// heartbeat says that the node is alive and what it has in hand.
func (n *Node) heartbeat() {
	load := n.load()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.link == nil {
		return
	}
	n.beats++
	seq := n.beats
	epoch := n.epoch
	hb := wire.NodeHeartbeat{Epoch: &epoch, HBSeq: &seq, Declaration: n.unsaid}
	n.unsaid = wire.Declaration{}
	hb.Active, hb.CurrentLoad = n.active(false), load
	if n.leaving {
		hb.Health = healthDraining
	}
	n.link.say(hb)
}

// load asks how busy the machine is, one at a time.
func (n *Node) load() *wire.Load {
	if n.cfg.Load == nil {
		return nil
	}
	n.asking.Lock()
	defer n.asking.Unlock()
	now := n.cfg.Load()
	return &wire.Load{CPU: share(now.CPU), GPU: share(now.GPU), Memory: share(now.Memory)}
}

// share is a number from 0 to 1. What is no number is not known: it could not be sent at all.
func share(of *float64) *float64 {
	if of == nil || math.IsNaN(*of) {
		return nil
	}
	within := min(max(*of, 0), 1)
	return &within
}

// active lists every attempt that was received and whose outcome is not acknowledged, with what has come of its audio if
// that is asked for. It is never nil, which would say nothing; the node is locked.
func (n *Node) active(audio bool) []wire.ActiveAttempt {
	all := make([]wire.ActiveAttempt, 0, len(n.tasks))
	for key, t := range n.tasks {
		if t.stage == dropped {
			continue
		}
		a := wire.ActiveAttempt{ActiveJob: key}
		if audio {
			a.AudioChunks = t.audioChunks()
		}
		all = append(all, a)
	}
	return all
}

// watch asks now and then whether somebody is there: a connection whose other end vanished says nothing, for very long.
func (n *Node) watch(ctx context.Context, l *link) {
	for wait(ctx, n.untilBeat()) && l.alive(ctx, n.pace.pong) {
		continue
	}
}

// alive reports whether the other side still answers.
func (l *link) alive(ctx context.Context, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	err := l.conn.Ping(ctx)
	if err != nil {
		l.lost(errNoAnswer)
	}
	return err == nil
}
