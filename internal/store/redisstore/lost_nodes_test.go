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

// namesOf lists leases by job and state, in order.
func namesOf(leases []core.Lease) []string {
	var names []string
	for _, l := range leases {
		names = append(names, fmt.Sprintf("%s|%d|%s %s", l.Job, l.Attempt, l.Token, l.State))
	}
	slices.Sort(names)
	return names
}

// lists is a node's word on what it has: the subject's own job is "own".
func (x *subject) lists(jobs ...string) store.Activity {
	a := store.Activity{Lists: true}
	for _, job := range jobs {
		if job == "own" {
			job = x.name
		}
		a.Active = append(a.Active, store.ActiveJob{Job: core.JobID(job), Attempt: 1})
	}
	return a
}

func (x *subject) beat(ctx context.Context, s *redisstore.Store, seq uint64, change func(*core.Node), jobs ...string) (string, error) {
	p := store.HeartbeatParams{
		Node: x.node.ID, Epoch: x.node.Epoch, Seq: seq, Known: x.node, Load: core.Load{CPU: 0.5, GPU: -1, Memory: -1}, Activity: x.lists(jobs...),
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
	return fmt.Sprintln(r.Verdict, r.Node.MaxJobs, r.Node.Version, r.Occupancy, namesOf(r.Orphans), namesOf(r.Overdue), namesOf(r.Strays), r.Cancels), nil
}

func beats(seq uint64, change func(*core.Node), jobs ...string) func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
	return func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		return x.beat(ctx, s, seq, change, jobs...)
	}
}

// then prepares in two steps.
func then(first func(context.Context, *subject) error, second func(ctx context.Context, s *redisstore.Store, x *subject) (string, error)) func(context.Context, *subject) error {
	return func(ctx context.Context, x *subject) error {
		if err := first(ctx, x); err != nil {
			return err
		}
		_, err := second(ctx, x.sure, x)
		return err
	}
}

func register(jobs ...string) func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
	return func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		r, err := s.Register(ctx, store.RegisterParams{
			Node: crowdDeclared(core.NodeID(x.name), 10), Load: core.UnknownLoad, Activity: x.lists(jobs...),
		})
		return fmt.Sprintln(r.Occupancy, namesOf(r.Kept), namesOf(r.Orphans), namesOf(r.Strays)), err
	}
}

// A registration that is repeated is another one: the node begins one more life, with what it had.
var lives = []string{"meta.epoch", "meta.rev", "meta.ver", "meta.grant"}

func drain(drained bool) func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
	return func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		n, err := s.Drain(ctx, store.DrainParams{Node: x.node.ID, Drained: drained})
		if err != nil {
			return "", err
		}
		return fmt.Sprintln(n.Drained, n.Version), nil
	}
}

func connect(connection uint64, lost bool) func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
	return func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		n, err := s.Connect(ctx, store.ConnectParams{Node: x.node.ID, Epoch: x.node.Epoch, Connection: connection, Lost: lost})
		if err != nil {
			return "", err
		}
		return fmt.Sprintln(n.Disconnected, n.Version), nil
	}
}

func mark(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
	return "", s.Mark(ctx, store.Mark{Node: x.node.ID, Service: "asr", For: time.Minute})
}

func remove(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
	return "", s.Remove(ctx, store.RemoveParams{Node: x.node.ID})
}

var nodeLosses = []loss{
	{name: "register", loses: "register", prepare: nothing, call: register(), renews: lives,
		done: func(_, now state) bool { return now.has("meta") }},
	{
		name: "register again", loses: "register", renews: lives, call: register("own", "j-9"),
		prepare: then(then(running, func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
			if err := x.reserve(ctx, x.other("j-3")); err != nil {
				return "", err
			}
			_, err := s.Commit(ctx, x.other("j-3")) // it is not listed: an orphan
			return "", err
		}), func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
			return "", s.Revoke(ctx, x.other("j-2")) // nor is this, and it goes
		}),
		done: func(before, now state) bool { return before["meta.epoch"] != now["meta.epoch"] },
	},
	{name: "sighting", loses: "record_last_seen", prepare: nothing, call: register(), renews: lives,
		done: func(_, now state) bool { return now.has("seen") }},
	{name: "heartbeat", loses: "heartbeat", prepare: running, call: beats(1, nil, "own", "j-2")},
	{name: "first omission", loses: "heartbeat", prepare: running, call: beats(1, nil, "j-2")},
	{name: "second omission", loses: "heartbeat", prepare: then(running, beats(1, nil, "j-2")), call: beats(2, nil, "j-2")},
	{name: "stray", loses: "heartbeat", prepare: running, call: beats(1, nil, "own", "j-2", "j-9")},
	{name: "let go", loses: "heartbeat", prepare: then(then(running, revoke), beats(1, nil, "own", "j-2")), call: beats(2, nil, "j-2")},
	{name: "change", loses: "heartbeat", prepare: running, call: beats(1, func(n *core.Node) { n.MaxJobs = 5 }, "own", "j-2")},
	{name: "drain", loses: "drain", prepare: registered, call: drain(true)},
	{name: "resume", loses: "drain", prepare: then(registered, drain(true)), call: drain(false)},
	{name: "lost connection", loses: "connect", prepare: registered, call: connect(1, true)},
	{name: "another connection", loses: "connect", prepare: then(registered, connect(1, true)), call: connect(2, false)},
	{name: "mark", loses: "mark", prepare: registered, call: mark},
	{name: "remove", loses: "remove", prepare: then(running, mark), call: remove},
	{name: "forget", loses: "ZREM", prepare: then(running, mark), call: remove,
		done: func(_, now state) bool { return !now.has("seen") }},
	{
		name: "incarnation", loses: "incarnation",
		prepare: func(_ context.Context, x *subject) error {
			_, err := x.server.Do("DEL", redisstore.KeysOf(x.prefix, x.name)["incarnation"])
			return err
		},
		call: func(ctx context.Context, s *redisstore.Store, _ *subject) (string, error) {
			_, err := s.LastSeen(ctx)
			return "", err
		},
	},
}
