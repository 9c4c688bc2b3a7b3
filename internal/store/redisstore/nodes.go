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
	young, err := s.checkIncarnation(ctx) // checked each time: a node that comes back may be the first to find an empty store
	if err != nil {
		return store.Registration{}, err
	}
	body, err := encodeNode(&p.Node)
	if err != nil {
		return store.Registration{}, err
	}
	lists, counts, current := activity(&p.Activity)
	args := appendActive([]string{
		s.presenceMS, s.reservedTTLMS, s.attemptMS, body, flag(p.Node.Health == core.HealthReady),
		flag(p.Node.Health == core.HealthOffline),
		strconv.Itoa(p.Node.MaxJobs), encodeLoad(p.Load), lists, counts, current, flag(p.Returning), strconv.FormatUint(p.Connection, 10),
		flag(p.RequireSecret), p.Node.SecretHash, string(p.Node.Tenant), flag(p.Drained),
	}, &p.Activity)
	now, r, err := s.client.runScript(ctx, &scriptRegister,
		[]string{s.keys.meta(p.Node.ID), s.keys.leases(p.Node.ID), s.keys.unavailable(p.Node.ID)}, args...)
	if err != nil {
		return store.Registration{}, err
	}
	if r.int(0) == replyNameTaken {
		return store.Registration{}, store.ErrNameTaken
	}
	n := p.Node
	_ = fieldsOf(r.list(1)).apply(&n) // the script has written them
	answer := store.Registration{
		Known: r.int(0) == 1, Young: young,
		NodeStatus: store.NodeStatus{Node: &n, Load: p.Load, At: time.UnixMilli(now), Occupancy: occupancy(r.list(2))},
		Kept:       s.decodeLeases(n.ID, r.texts(3), now), Orphans: s.decodeLeases(n.ID, r.texts(4), now),
		Strays:  s.decodeLeases(n.ID, r.texts(5), now),
		Cancels: decodeCancels(r.texts(6)),
	}
	// From here on nothing may fail: the epoch has begun. Other instances find a change that is not published by comparing.
	s.lastSeen.reportNow(ctx, &answer.NodeStatus)
	s.publishChange(ctx, n.ID, changeNode)
	return answer, nil
}

// Heartbeat implements store.Nodes.
func (s *Store) Heartbeat(ctx context.Context, p store.HeartbeatParams) (store.HeartbeatResult, error) {
	next, body, err := nextDeclaration(&p)
	if err != nil {
		return store.HeartbeatResult{}, err
	}
	var known string
	if p.Known != nil {
		known = strconv.FormatInt(int64(p.Known.Epoch), 10) + "@" + strconv.FormatInt(int64(p.Known.Version), 10)
	}
	lists, counts, current := activity(&p.Activity)
	args := []string{
		s.presenceMS, s.reservedTTLMS, s.attemptMS, strconv.FormatInt(int64(p.Epoch), 10), strconv.FormatUint(p.Seq, 10), flag(p.Repeat),
		known, encodeLoad(p.Load), lists, counts, current,
		flag(next != nil), "", "", "", "", "", "",
	}
	if next != nil {
		copy(args[len(args)-6:], []string{
			body, strconv.FormatInt(int64(next.Version), 10), strconv.FormatInt(int64(next.Revision), 10),
			flag(next.Health == core.HealthReady), flag(next.Health == core.HealthOffline), strconv.Itoa(next.MaxJobs),
		})
	}
	args = append(args, flag(p.OnBehalf))
	now, r, err := s.client.runScript(ctx, &scriptHeartbeat, []string{s.keys.meta(p.Node), s.keys.leases(p.Node)},
		appendActive(args, &p.Activity)...)
	switch {
	case errors.Is(err, errLate) && ctx.Err() != nil:
		return store.HeartbeatResult{Verdict: store.TooLate}, nil //nolint:nilerr // the verdict is the answer
	case errors.Is(err, errLate):
		return store.HeartbeatResult{}, fmt.Errorf("%w: %w", store.ErrDown, err) // it was not overtaken: the caller has to repeat it
	case err != nil:
		return store.HeartbeatResult{}, err
	}
	result := store.HeartbeatResult{Verdict: store.Verdict(r.int(0)), Young: s.incarnation.isYoung()}
	if result.Verdict != store.OK {
		return result, nil
	}
	if result.Node, err = s.nodeAfterHeartbeat(&p, next, r.list(1)); err != nil {
		s.client.logRefused(s.keys.meta(p.Node), err)
		return store.HeartbeatResult{Verdict: store.UnknownNode}, nil // its next registration writes the whole node
	}
	result.Load, result.Occupancy, result.At = p.Load, occupancy(r.list(2)), time.UnixMilli(now)
	result.Age = time.Duration(r.list(1).int(fieldCount+1)) * time.Millisecond
	result.Orphans, result.Overdue = s.decodeLeases(p.Node, r.texts(3), now), s.decodeLeases(p.Node, r.texts(4), now)
	result.Strays, result.Cancels = s.decodeLeases(p.Node, r.texts(5), now), decodeCancels(r.texts(6))
	if !p.OnBehalf {
		s.lastSeen.record(&result.NodeStatus)
	}
	result.WasSilent = r.list(1).int(fieldCount+2) == 1
	if result.Node == next || result.WasSilent {
		s.publishChange(ctx, p.Node, changeNode) // it has changed, or was silent: other instances do not have it in view
	}
	return result, nil
}

// KeepAlive implements store.Nodes.
func (s *Store) KeepAlive(ctx context.Context, p store.KeepAliveParams) (store.Verdict, error) {
	_, r, err := s.client.runScript(ctx, &scriptKeepAlive, []string{s.keys.meta(p.Node), s.keys.leases(p.Node)},
		s.presenceMS, s.reservedTTLMS, s.attemptMS, strconv.FormatInt(int64(p.Epoch), 10), flag(p.Lists))
	if err != nil || store.Verdict(r.int(0)) != store.OK {
		return store.Verdict(r.int(0)), err
	}
	if r.int(1) == 1 {
		s.publishChange(ctx, p.Node, changeNode) // other instances do not have it in view
	}
	status, err := store.ReadNode(ctx, s, p.Node)
	if err != nil {
		return 0, err
	}
	s.lastSeen.record(&status)
	return store.OK, nil
}

// nextDeclaration returns what the node becomes unless it has changed since, and its encoding; nil when it stays as it is.
func nextDeclaration(p *store.HeartbeatParams) (*core.Node, string, error) {
	if p.Declared == nil {
		return nil, "", nil
	}
	next := *p.Declared
	next.ID, next.Drained, next.Disconnected, next.SilentSince = p.Known.ID, p.Known.Drained, p.Known.Disconnected, p.Known.SilentSince
	next.Admission = p.Known.Admission
	if next.SameDeclaration(p.Known) {
		return nil, "", nil
	}
	next.Supersede(p.Known)
	body, err := encodeNode(&next)
	return &next, body, err
}

// nodeAfterHeartbeat returns the node after a heartbeat: the known one, the declared one, or the one that another caller has written.
func (s *Store) nodeAfterHeartbeat(p *store.HeartbeatParams, next *core.Node, meta reply) (*core.Node, error) {
	fields := fieldsOf(meta)
	switch {
	case !meta.isNil(fieldCount):
		return decodeNode(p.Node, fields, meta.text(fieldCount))
	case next != nil:
		return next, nil
	}
	return p.Known, nil
}

func decodeCancels(names []string) []store.ActiveJob {
	var list []store.ActiveJob
	for _, name := range names {
		job, attempt, _ := strings.Cut(name, "|")
		n, _ := strconv.Atoi(attempt)
		list = append(list, store.ActiveJob{Job: core.JobID(job), Attempt: n})
	}
	return list
}

// Drain implements store.Nodes.
func (s *Store) Drain(ctx context.Context, p store.DrainParams) (*core.Node, error) {
	_, r, err := s.client.runScript(ctx, &scriptDrain, []string{s.keys.meta(p.Node)}, flag(p.Drained))
	if err != nil {
		return nil, err
	}
	if r.int(0) == replyNotRegistered {
		return nil, store.ErrNoNode
	}
	s.publishChange(ctx, p.Node, changeNode) // also when nothing changed: the reply to the call that changed it may have been lost
	status, err := store.ReadNode(ctx, s, p.Node)
	return status.Node, err
}

// Connect implements store.Nodes.
func (s *Store) Connect(ctx context.Context, p store.ConnectParams) (*core.Node, error) {
	_, r, err := s.client.runScript(ctx, &scriptConnect, []string{s.keys.meta(p.Node)},
		strconv.FormatInt(int64(p.Epoch), 10), strconv.FormatUint(p.Connection, 10), flag(p.Lost),
		strconv.FormatInt(p.SilentFor.Milliseconds(), 10))
	if err != nil {
		return nil, err
	}
	switch r.int(0) {
	case replyNotRegistered:
		return nil, store.ErrNoNode
	case 1: // also when nothing changed: the reply to the call that changed it may have been lost
		s.publishChange(ctx, p.Node, changeNode)
	}
	status, err := store.ReadNode(ctx, s, p.Node)
	return status.Node, err
}

// Remove implements store.Nodes.
func (s *Store) Remove(ctx context.Context, p store.RemoveParams) (bool, error) {
	_, r, err := s.client.runScript(ctx, &scriptRemove, []string{s.keys.meta(p.Node), s.keys.leases(p.Node), s.keys.unavailable(p.Node)},
		strconv.FormatInt(p.SilentFor.Milliseconds(), 10), strconv.FormatInt(int64(p.Epoch), 10))
	if err != nil || r.int(0) == 0 {
		return false, err
	}
	if err := s.lastSeen.remove(ctx, p.Node); err != nil {
		return false, err
	}
	s.publishChange(ctx, p.Node, changeRemoved)
	return true, nil
}

// Nodes implements store.NodeReader. A node that is listed and does not exist was removed meanwhile, or its removal
// is incomplete. One that cannot be read is left out: the others can be used.
func (s *Store) Nodes(ctx context.Context, ids ...core.NodeID) ([]store.NodeStatus, error) {
	if len(ids) == 0 {
		all, err := s.Overdue(ctx, 0)
		if err != nil {
			return nil, err
		}
		for i := range all.Nodes {
			ids = append(ids, all.Nodes[i].Node)
		}
	}
	calls := make([]scriptCall, len(ids))
	for i, id := range ids {
		calls[i] = scriptCall{keys: []string{s.keys.meta(id), s.keys.leases(id)}, args: []string{s.presenceMS}}
	}
	var all []store.NodeStatus
	err := s.client.readEach(ctx, &scriptNode, calls, func(i int, now int64, r reply) {
		status, err := decodeStatus(ids[i], now, r)
		s.client.logRefused(s.keys.meta(ids[i]), err)
		if err == nil && status != nil {
			all = append(all, *status)
		}
	})
	return all, err
}
