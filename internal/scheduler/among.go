package scheduler

import (
	"context"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/parallel"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// autoName has a name made for this instance.
const autoName = "auto"

// incarnation names this life of this process.
func (s *Scheduler) incarnation() core.InstanceID {
	name := s.cfg.Scheduler.Phase2.InstanceID
	if name == autoName {
		name = ""
	}
	return bus.NewIncarnation(name)
}

// about is what the others should know of this instance.
func (s *Scheduler) about() bus.About {
	return bus.About{
		Name: bus.ConfiguredName(s.Bus.Instance()), URL: s.links.Address(), Version: s.version, Started: s.started.UnixMilli(), Draining: s.Server.Stopping(),
		Nodes: s.links.Len(), Sessions: s.Sessions.Len(), Jobs: s.Jobs.InFlight(),
	}
}

// fence is until when this instance may grant. One that shares nothing with anybody always may.
func (s *Scheduler) fence() func() time.Time {
	if !s.shares() {
		return nil
	}
	return s.Bus.Fence
}

// shares reports whether there may be others.
func (s *Scheduler) shares() bool {
	_, shared, err := s.cfg.RedisAddress()
	return err == nil && shared
}

// accompanied reports whether there are other instances that take on what this one has.
func (s *Scheduler) accompanied(ctx context.Context) bool {
	peers, err := s.Bus.Peers(ctx)
	return err == nil && slices.ContainsFunc(peers, func(p bus.Peer) bool { return p.Present && !p.This && !p.Draining })
}

// owner is with whom a node is connected, as far as it is known here.
func (s *Scheduler) owner(id core.NodeID) core.InstanceID {
	if n := s.Fleet.Node(id); n != nil {
		return n.Now().Owner
	}
	return ""
}

// bereaved takes over from an instance that is gone: its jobs at once, and its nodes when they had time to come back.
func (s *Scheduler) bereaved(ctx context.Context, gone core.InstanceID) error {
	if err := s.Jobs.TakeOverJobs(ctx, gone); err != nil {
		return err
	}
	s.later.Go(func() {
		if backoff.Sleep(s.life, s.cfg.Scheduler.Sessions.DisconnectGraceMS.Duration()) {
			s.forsaken(s.life, gone)
		}
	})
	return nil
}

// forsaken moves on the jobs of nodes that were connected with an instance that is gone, and did not come back.
func (s *Scheduler) forsaken(ctx context.Context, gone core.InstanceID) {
	if peers, err := s.Bus.Peers(ctx); err != nil || slices.ContainsFunc(peers, func(p bus.Peer) bool { return p.ID == gone && p.Present }) {
		return // it is back, and sees to them itself; or they fall silent by themselves
	}
	all, err := s.Nodes.All(ctx)
	if err != nil {
		return // they fall silent by themselves
	}
	parallel.ForEach(forsakenAtOnce, all, func(n store.NodeStatus) {
		if n.Node.Owner != gone || n.Node.Health == core.HealthOffline {
			return
		}
		if err := s.Nodes.NodeLost(ctx, n.Node.ID, n.Node.Epoch); err != nil {
			s.log.Warn("could not move the jobs of a node whose instance is gone", "node_id", n.Node.ID, "error", err)
		}
	})
}

// forsakenAtOnce is how many nodes of an instance that is gone are seen to at the same time.
const forsakenAtOnce = 8

// farewellFor is how long this instance takes to say that it is gone. If it cannot, that is found out soon enough.
const farewellFor = 2 * time.Second

func (s *Scheduler) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, farewellFor)
	defer cancel()
	if err := s.Bus.Leave(ctx, !s.Jobs.HasUnfinishedJobs()); err != nil {
		s.log.Warn("the others could not be told that this instance is gone", "error", err)
	}
}
