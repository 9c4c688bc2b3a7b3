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
		Name: bus.ConfiguredName(s.Bus.Instance()), URL: s.nodeConns.Address(), Version: s.version, Started: s.started.UnixMilli(), Draining: s.Server.Stopping(),
		Nodes: s.nodeConns.Len(), Sessions: s.Sessions.Len(), Jobs: s.Jobs.InFlight(),
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
		return n.Declared().Owner
	}
	return ""
}

// takeOver takes over from a dead instance: its jobs at once, and the jobs of its nodes when these had time to reconnect.
func (s *Scheduler) takeOver(ctx context.Context, dead core.InstanceID) error {
	if err := s.Jobs.TakeOverJobs(ctx, dead); err != nil {
		return err
	}
	s.later.Go(func() {
		if backoff.Sleep(s.life, s.cfg.Scheduler.Sessions.DisconnectGraceMS.Duration()) {
			s.takeOverNodes(s.life, dead)
		}
	})
	return nil
}

// takeOverNodes moves the jobs of nodes that were connected to a dead instance and have not reconnected.
func (s *Scheduler) takeOverNodes(ctx context.Context, dead core.InstanceID) {
	if peers, err := s.Bus.Peers(ctx); err != nil || slices.ContainsFunc(peers, func(p bus.Peer) bool { return p.ID == dead && p.Present }) {
		return // it is back, and sees to them itself; or they fall silent by themselves
	}
	all, err := s.Nodes.All(ctx)
	if err != nil {
		return // they fall silent by themselves
	}
	parallel.ForEach(takeoverWorkers, all, func(n store.NodeStatus) {
		if n.Node.Owner != dead || n.Node.Health == core.HealthOffline {
			return
		}
		if err := s.Nodes.NodeLost(ctx, n.Node.ID, n.Node.Epoch); err != nil {
			s.log.Warn("could not move the jobs of a node whose instance is gone", "node_id", n.Node.ID, "error", err)
		}
	})
}

// takeoverWorkers is how many nodes of a dead instance are handled concurrently.
const takeoverWorkers = 8

// farewellFor is how long this instance takes to say that it is gone. If it cannot, that is found out soon enough.
const farewellFor = 2 * time.Second

func (s *Scheduler) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, farewellFor)
	defer cancel()
	if err := s.receiver.Leave(ctx, !s.Jobs.HasUnfinishedJobs()); err != nil {
		s.log.Warn("the others could not be told that this instance is gone", "error", err)
	}
}
