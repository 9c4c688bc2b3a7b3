//go:build !race

package redisstore_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
)

// formatLeaseStates lists leases with their states, in order.
func formatLeaseStates(leases []core.Lease) []string {
	var names []string
	for _, l := range leases {
		names = append(names, fmt.Sprintf("%s|%d|%s %s", l.Job, l.Attempt, l.Token, l.State))
	}
	slices.Sort(names)
	return names
}

// activity returns the activity of a node that lists jobs; "own" is the subject's own job.
func (x *subject) activity(jobs ...string) store.Activity {
	a := store.Activity{Lists: true}
	for _, job := range jobs {
		if job == "own" {
			job = x.name
		}
		a.Active = append(a.Active, store.ActiveJob{Job: core.JobID(job), Attempt: 1})
	}
	return a
}

func (x *subject) heartbeat(ctx context.Context, s *redisstore.Store, seq uint64, change func(*core.Node), jobs ...string) (string, error) {
	p := store.HeartbeatParams{
		Node: x.node.ID, Epoch: x.node.Epoch, Seq: seq, Known: x.node, Load: core.Load{CPU: 0.5, GPU: -1, Memory: -1}, Activity: x.activity(jobs...),
	}
	if change != nil {
		next := *x.node
		change(&next)
		p.Declared = &next
	}
	r, err := s.Heartbeat(ctx, p)
	if err != nil {
		return "", err
	}
	return fmt.Sprintln(r.Verdict, r.Node.MaxJobs, r.Node.Version, r.Occupancy, formatLeaseStates(r.Orphans), formatLeaseStates(r.Overdue), formatLeaseStates(r.Strays), r.Cancels), nil
}

func sendHeartbeat(seq uint64, change func(*core.Node), jobs ...string) func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
	return func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		return x.heartbeat(ctx, s, seq, change, jobs...)
	}
}

// after prepares with a call in addition.
func after(first func(context.Context, *subject) error, second func(ctx context.Context, s *redisstore.Store, x *subject) (string, error)) func(context.Context, *subject) error {
	return func(ctx context.Context, x *subject) error {
		if err := first(ctx, x); err != nil {
			return err
		}
		_, err := second(ctx, x.reliable, x)
		return err
	}
}

func registerNode(jobs ...string) func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
	return func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		r, err := s.Register(ctx, store.RegisterParams{
			Node: declaredNode(core.NodeID(x.name), 10), Load: core.UnknownLoad, Activity: x.activity(jobs...),
		})
		return fmt.Sprintln(r.Occupancy, formatLeaseStates(r.Kept), formatLeaseStates(r.Orphans), formatLeaseStates(r.Strays)), err
	}
}

// epochFields are the fields that a repeated registration changes: it starts another epoch with the same jobs.
var epochFields = []string{"meta.epoch", "meta.rev", "meta.ver", "meta.grant"}

func setDrain(drained bool) func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
	return func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		n, err := s.Drain(ctx, store.DrainParams{Node: x.node.ID, Drained: drained})
		if err != nil {
			return "", err
		}
		return fmt.Sprintln(n.Drained, n.Version), nil
	}
}

func reportConnection(connection uint64, lost bool) func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
	return func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		n, err := s.Connect(ctx, store.ConnectParams{Node: x.node.ID, Epoch: x.node.Epoch, Connection: connection, Lost: lost})
		if err != nil {
			return "", err
		}
		return fmt.Sprintln(n.Disconnected, n.Version), nil
	}
}

func admitSlots(fence int64, a core.Admission, lasting time.Duration) func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
	return func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		n, admitted, err := s.Admit(ctx, store.AdmitParams{Node: core.NodeID(x.name), Fence: fence, Admission: a, For: lasting})
		if err != nil {
			return "", err
		}
		decided := n.Admission
		return fmt.Sprintln(admitted, n.Version, decided.Limited, decided.Slots, decided.Reason, decided.Times, decided.Until.Sub(decided.Since)), nil
	}
}

// withLimitedNode prepares a node with a running job, of which fewer slots may be granted.
func withLimitedNode(ctx context.Context, x *subject) error {
	if err := after(withRunningJob, admitSlots(3, limited, time.Minute))(ctx, x); err != nil {
		return err
	}
	status, err := store.ReadNode(ctx, x.reliable, x.node.ID)
	x.node = status.Node
	return err
}

// ejected and limited are decisions on how many slots may be granted.
var (
	ejected = core.Admission{Limited: true, Reason: core.AdmissionFailing, Times: 2}
	limited = core.Admission{Limited: true, Slots: 4, Reason: core.AdmissionACKTimeouts, Times: 2}
)

func markService(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
	return "", s.Mark(ctx, store.Mark{Node: x.node.ID, Service: "asr", Version: "1", Epoch: x.node.Epoch, NodeVersion: x.node.Version, For: time.Minute})
}

func removeNode(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
	removed, err := s.Remove(ctx, store.RemoveParams{Node: x.node.ID})
	return fmt.Sprint(removed), err
}

func keepAlive(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
	v, err := s.KeepAlive(ctx, store.KeepAliveParams{Node: x.node.ID, Epoch: x.node.Epoch, Lists: true})
	return v.String(), err
}

var nodeLostReplies = []lostReply{
	{name: "register", command: "register", prepare: withNothing, call: registerNode(), renews: epochFields,
		done: func(_, now redisState) bool { return now.has("meta") }},
	{
		name: "register again", command: "register", renews: epochFields, call: registerNode("own", "j-9"),
		prepare: after(after(withRunningJob, func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
			if err := x.reserve(ctx, x.otherLease("j-3")); err != nil {
				return "", err
			}
			_, err := s.Commit(ctx, x.otherLease("j-3")) // not listed: an orphan
			return "", err
		}), func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
			return "", s.Revoke(ctx, x.otherLease("j-2")) // not listed and revoked: removed
		}),
		done: func(before, now redisState) bool { return before["meta.epoch"] != now["meta.epoch"] },
	},
	{name: "last seen", command: "record_last_seen", prepare: withNothing, call: registerNode(), renews: epochFields,
		done: func(_, now redisState) bool { return now.has("seen") }},
	{name: "heartbeat", command: "heartbeat", prepare: withRunningJob, call: sendHeartbeat(1, nil, "own", "j-2")},
	{name: "first omission", command: "heartbeat", prepare: withRunningJob, call: sendHeartbeat(1, nil, "j-2")},
	{name: "second omission", command: "heartbeat", prepare: after(withRunningJob, sendHeartbeat(1, nil, "j-2")), call: sendHeartbeat(2, nil, "j-2")},
	{name: "stray", command: "heartbeat", prepare: withRunningJob, call: sendHeartbeat(1, nil, "own", "j-2", "j-9")},
	{name: "omission of a revoked job", command: "heartbeat", prepare: after(after(withRunningJob, revokeLease), sendHeartbeat(1, nil, "own", "j-2")), call: sendHeartbeat(2, nil, "j-2")},
	{name: "declaration", command: "heartbeat", prepare: withRunningJob, call: sendHeartbeat(1, func(n *core.Node) { n.MaxJobs = 5 }, "own", "j-2")},
	{name: "answer to a ping", command: "keep_alive", prepare: withRunningJob, call: keepAlive},
	{name: "drain", command: "drain", prepare: withNode, call: setDrain(true)},
	{name: "end of a drain", command: "drain", prepare: after(withNode, setDrain(true)), call: setDrain(false)},
	{name: "lost connection", command: "connect", prepare: withNode, call: reportConnection(1, true)},
	{name: "another connection", command: "connect", prepare: after(withNode, reportConnection(1, true)), call: reportConnection(2, false)},
	{name: "ejection", command: "admit", prepare: withRunningJob, call: admitSlots(3, ejected, time.Minute)},
	{name: "limit", command: "admit", prepare: after(withRunningJob, admitSlots(3, ejected, time.Minute)), call: admitSlots(3, limited, 0)},
	{name: "end of a limit", command: "admit", prepare: after(withRunningJob, admitSlots(3, limited, time.Minute)), call: admitSlots(4, core.Admission{}, 0)},
	{name: "the same decision of the next leader", command: "admit", prepare: after(withNode, admitSlots(3, limited, time.Minute)), call: admitSlots(4, limited, time.Minute)},
	{name: "register after a limit", command: "register", renews: epochFields, prepare: after(withRunningJob, admitSlots(3, limited, time.Minute)), call: registerNode("own"),
		done: func(before, now redisState) bool { return before["meta.epoch"] != now["meta.epoch"] }},
	{name: "declaration after a limit", command: "heartbeat", prepare: withLimitedNode, call: sendHeartbeat(1, func(n *core.Node) { n.MaxJobs = 5 }, "own", "j-2")},
	{name: "mark", command: "mark", prepare: withNode, call: markService},
	{name: "remove", command: "remove", prepare: after(withRunningJob, markService), call: removeNode},
	{name: "removal from the list", command: "unlist", prepare: after(withRunningJob, markService), call: removeNode,
		done: func(_, now redisState) bool { return !now.has("seen") }},
	{
		name: "incarnation", command: "incarnation",
		prepare: func(_ context.Context, x *subject) error {
			_, err := x.server.Do("DEL", redisstore.KeysByLabel(x.prefix, x.name)["incarnation"])
			return err
		},
		call: func(ctx context.Context, s *redisstore.Store, _ *subject) (string, error) {
			return "", s.CheckIncarnation(ctx)
		},
	},
}
