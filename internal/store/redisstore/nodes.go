package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Register implements store.Nodes.
func (s *Store) Register(ctx context.Context, p store.RegisterParams) (store.Registration, error) {
	young, err := s.young(ctx) // asked anew: a node that comes back may be the first to meet an empty store
	if err != nil {
		return store.Registration{}, err
	}
	body, err := encodeNode(&p.Node)
	if err != nil {
		return store.Registration{}, err
	}
	lists, counts, current := activity(&p.Activity)
	args := listing([]string{
		s.presence, s.judge, s.attempt, body, flag(p.Node.Health == core.HealthReady), flag(p.Node.Health == core.HealthOffline),
		strconv.Itoa(p.Node.MaxJobs), encodeLoad(p.Load), lists, counts, current, flag(p.Returning), strconv.FormatUint(p.Connection, 10),
	}, &p.Activity)
	now, r, err := s.line.run(ctx, &scriptRegister, []string{s.keys.meta(p.Node.ID), s.keys.leases(p.Node.ID)}, args...)
	if err != nil {
		return store.Registration{}, err
	}
	n := p.Node
	fieldsOf(r.list(1)).apply(&n)
	answer := store.Registration{
		Known: r.int(0) == 1, Young: young,
		NodeStatus: store.NodeStatus{Node: &n, Load: p.Load, Occupancy: occupancy(r.list(2))},
		Kept:       s.leases(n.ID, r.texts(3), now), Orphans: s.leases(n.ID, r.texts(4), now), Strays: s.leases(n.ID, r.texts(5), now),
	}
	// From here on nothing may fail: the life has begun. What others are not told now they find by comparing.
	s.seen.tellNow(ctx, n.ID)
	s.announce(ctx, n.ID, changeNode)
	return answer, nil
}

// Heartbeat implements store.Nodes.
func (s *Store) Heartbeat(ctx context.Context, p store.HeartbeatParams) (store.HeartbeatResult, error) {
	next, body, err := declare(&p)
	if err != nil {
		return store.HeartbeatResult{}, err
	}
	var known string
	if p.Known != nil {
		known = strconv.FormatInt(int64(p.Known.Epoch), 10) + "@" + strconv.FormatInt(int64(p.Known.Version), 10)
	}
	lists, counts, current := activity(&p.Activity)
	args := []string{
		s.presence, s.judge, s.attempt, strconv.FormatInt(int64(p.Epoch), 10), strconv.FormatUint(p.Seq, 10), flag(p.Again),
		known, encodeLoad(p.Load), lists, counts, current,
		flag(next != nil), "", "", "", "", "", "",
	}
	if next != nil {
		copy(args[len(args)-6:], []string{
			body, strconv.FormatInt(int64(next.Version), 10), strconv.FormatInt(int64(next.Revision), 10),
			flag(next.Health == core.HealthReady), flag(next.Health == core.HealthOffline), strconv.Itoa(next.MaxJobs),
		})
	}
	args = append(args, flag(p.Unheard))
	now, r, err := s.line.run(ctx, &scriptHeartbeat, []string{s.keys.meta(p.Node), s.keys.leases(p.Node)}, listing(args, &p.Activity)...)
	switch {
	case errors.Is(err, errLate) && ctx.Err() != nil:
		return store.HeartbeatResult{Verdict: store.TooLate}, nil //nolint:nilerr // the verdict is the answer
	case errors.Is(err, errLate):
		return store.HeartbeatResult{}, fmt.Errorf("%w: %w", store.ErrDown, err) // it was not overtaken; it must be said again
	case err != nil:
		return store.HeartbeatResult{}, err
	}
	pulse := store.HeartbeatResult{Verdict: store.Verdict(r.int(0)), Young: s.life.young()}
	if pulse.Verdict != store.OK {
		return pulse, nil
	}
	if pulse.Node, err = s.beating(&p, next, r.list(1)); err != nil {
		return store.HeartbeatResult{}, err
	}
	pulse.Load, pulse.Occupancy, pulse.Age = p.Load, occupancy(r.list(2)), time.Duration(r.list(1).int(6))*time.Millisecond
	pulse.Orphans, pulse.Overdue = s.leases(p.Node, r.texts(3), now), s.leases(p.Node, r.texts(4), now)
	pulse.Strays, pulse.Cancels = s.leases(p.Node, r.texts(5), now), cancels(r.texts(6))
	if !p.Unheard {
		s.seen.tell(p.Node)
	}
	if pulse.Node == next {
		s.announce(ctx, p.Node, changeNode)
	}
	return pulse, nil
}

// declare works out what the node becomes if nobody changed it since; nil when it stays as it is.
func declare(p *store.HeartbeatParams) (*core.Node, string, error) {
	if p.Declared == nil {
		return nil, "", nil
	}
	next := *p.Declared
	next.ID, next.Drained, next.Disconnected = p.Known.ID, p.Known.Drained, p.Known.Disconnected
	if next.SameDeclaration(p.Known) {
		return nil, "", nil
	}
	next.Supersede(p.Known)
	body, err := encodeNode(&next)
	return &next, body, err
}

// beating is the node as it is after a heartbeat: as it was known, as it was declared, or as somebody else has
// changed it.
func (s *Store) beating(p *store.HeartbeatParams, next *core.Node, meta reply) (*core.Node, error) {
	fields := fieldsOf(meta)
	switch {
	case !meta.none(5):
		return decodeNode(p.Node, fields, meta.text(5))
	case next != nil:
		return next, nil
	}
	return p.Known, nil
}

func cancels(names []string) []store.ActiveJob {
	var list []store.ActiveJob
	for _, name := range names {
		job, attempt, _ := strings.Cut(name, "|")
		n, _ := strconv.Atoi(attempt)
		list = append(list, store.ActiveJob{Job: core.JobID(job), Attempt: n})
	}
	return list
}

// unknownNode is what scripts answer for a node that is not registered.
const unknownNode = -2

// Drain implements store.Nodes.
func (s *Store) Drain(ctx context.Context, p store.DrainParams) (*core.Node, error) {
	_, r, err := s.line.run(ctx, &scriptDrain, []string{s.keys.meta(p.Node)}, flag(p.Drained))
	if err != nil {
		return nil, err
	}
	if r.int(0) == unknownNode {
		return nil, store.ErrNoNode
	}
	s.announce(ctx, p.Node, changeNode) // also when it was so: the reply to whoever changed it may have been lost
	status, err := s.Node(ctx, p.Node)
	return status.Node, err
}

// Connect implements store.Nodes.
func (s *Store) Connect(ctx context.Context, p store.ConnectParams) (*core.Node, error) {
	_, r, err := s.line.run(ctx, &scriptConnect, []string{s.keys.meta(p.Node)},
		strconv.FormatInt(int64(p.Epoch), 10), strconv.FormatUint(p.Connection, 10), flag(p.Lost))
	if err != nil {
		return nil, err
	}
	switch r.int(0) {
	case unknownNode:
		return nil, store.ErrNoNode
	case 1: // also when it was so: the reply to whoever changed it may have been lost
		s.announce(ctx, p.Node, changeNode)
	}
	status, err := s.Node(ctx, p.Node)
	return status.Node, err
}

// Remove implements store.Nodes.
func (s *Store) Remove(ctx context.Context, p store.RemoveParams) error {
	_, r, err := s.line.run(ctx, &scriptRemove, []string{s.keys.meta(p.Node), s.keys.leases(p.Node), s.keys.unavailable(p.Node)},
		strconv.FormatInt(p.SilentFor.Milliseconds(), 10))
	if err != nil || r.int(0) == 0 {
		return err
	}
	if err := s.seen.forget(ctx, p.Node); err != nil {
		return err
	}
	s.announce(ctx, p.Node, changeRemoved)
	return nil
}
