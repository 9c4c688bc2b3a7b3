package scheduler

import (
	"context"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// autoName is the configured instance name for which one is made.
const autoName = "auto"

// newIncarnation makes the id of this incarnation of an instance.
func newIncarnation(c *config.Scheduler) core.InstanceID {
	name := c.Phase2.InstanceID
	if name == autoName {
		name = ""
	}
	return bus.NewIncarnation(name)
}

// describe returns what this instance announces to the others.
func (s *Scheduler) describe() bus.About {
	return bus.About{
		Name: bus.ConfiguredName(s.instance), URL: s.nodeConns.Address(), Version: s.version.Version, Started: s.started.UnixMilli(),
		Draining: s.Server.Stopping(),
		Nodes:    s.nodeConns.Len(), Sessions: s.Sessions.Len(), Jobs: s.Jobs.InFlight(),
		Takeovers:  int(s.Metrics.Takeovers.WithLabelValues(telemetry.TakeoverInstance).Load()),
		KeysDigest: s.credentials.auth.Keyring().Digest(),
	}
}

// fence returns the function that says until when this instance may grant slots; nil if its store is not shared.
func (s *Scheduler) fence() func() time.Time {
	if !s.Store.Shared() {
		return nil
	}
	return s.Bus.Fence
}

// hasPeers reports whether another instance is present to take over from this one.
func (s *Scheduler) hasPeers(ctx context.Context) bool {
	peers, err := s.Bus.Peers(ctx)
	return err == nil && slices.ContainsFunc(peers, func(p bus.Peer) bool { return p.Present && !p.This && !p.Draining })
}

// ownerOf returns the instance to which a node is connected, by this instance's fleet.
func (s *Scheduler) ownerOf(id core.NodeID) core.InstanceID {
	if n := s.Fleet.Node(id); n != nil {
		return n.Declared().Owner
	}
	return ""
}

// newFollower makes the follower that keeps the fleet in step with the store.
func (s *Scheduler) newFollower() *fleet.Follower {
	s.Fleet.OnDrain(s.nodeConns.Drain)
	s.Fleet.OnLost(s.Jobs.ConnectionChanged)
	return &fleet.Follower{
		Fleet: s.Fleet, Nodes: s.pools.Watching(s.Store), Marks: s.Store, Log: s.log, OverdueAfter: overdueAfter(&s.cfg.Scheduler),
		OnSilent: s.Nodes.MoveJobsOfSilent, OnRevoked: s.revocations.ReadSoon,
	}
}

// takeOver takes over from a dead instance: its jobs at once, and the jobs of its nodes when these had time to reconnect.
func (s *Scheduler) takeOver(ctx context.Context, dead core.InstanceID) error {
	if err := s.Jobs.Reconciler.TakeOverJobs(ctx, dead); err != nil {
		return err
	}
	s.events.Record(store.Event{Kind: store.EventTakeover, Detail: "from " + string(dead)})
	s.takeovers.Go(func() {
		if run.Sleep(s.running, s.cfg.Scheduler.Sessions.DisconnectGraceMS.Duration()) {
			s.takeOverNodes(s.running, dead)
		}
	})
	return nil
}

// takeOverNodes moves the jobs of nodes that were connected to a dead instance and have not reconnected.
func (s *Scheduler) takeOverNodes(ctx context.Context, dead core.InstanceID) {
	if peers, err := s.Bus.Peers(ctx); err != nil ||
		slices.ContainsFunc(peers, func(p bus.Peer) bool { return p.ID == dead && p.Present }) {
		return // the instance is back and handles its nodes itself; or their silence will show
	}
	var left []*core.Node
	for n := range s.Fleet.All() { // the silence of a node that is missing there will show
		if declared := n.Declared(); declared.Owner == dead && declared.Health != core.HealthOffline {
			left = append(left, declared)
		}
	}
	run.ForEach(takeoverWorkers, left, func(n *core.Node) {
		if err := s.Nodes.MarkLost(ctx, n.ID, n.Epoch); err != nil {
			s.log.Warn("could not move the jobs of a node whose instance is gone", "node_id", n.ID, "error", err)
		}
	})
}

// takeoverWorkers is how many nodes of a dead instance are handled concurrently.
const takeoverWorkers = 8

// leaveTimeout limits how long this instance tries to announce that it is gone. The others detect it without that.
const leaveTimeout = 2 * time.Second

// leave announces to the other instances that this one is gone.
func (s *Scheduler) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	if err := s.receiver.Leave(ctx, !s.Jobs.LeavesJobs()); err != nil {
		s.log.Warn("could not announce to the other instances that this one is gone", "error", err)
	}
}
