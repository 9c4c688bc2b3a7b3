package redisstore_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
)

// losses are all calls that write, and for those that write in several ways, each way. Announcements of changes are
// left out: they say only where to look, and may come twice.
var losses = append(append(append(ledgerLosses, jobLosses...), nodeLosses...), append(boardLosses, mailLosses...)...)

func (x *subject) ref() core.LeaseRef {
	return core.LeaseRef{Node: core.NodeID(x.name), Job: core.JobID(x.name), Attempt: 1, Token: "t.1"}
}

// other is a lease beside the subject's own.
func (x *subject) other(job string) core.LeaseRef {
	return core.LeaseRef{Node: core.NodeID(x.name), Job: core.JobID(job), Attempt: 1, Token: "t.1"}
}

func (x *subject) reserve(ctx context.Context, refs ...core.LeaseRef) error {
	for _, ref := range refs {
		r, err := x.sure.Reserve(ctx, store.ReserveParams{Lease: ref, Epoch: x.node.Epoch, Revision: x.node.Revision})
		if err != nil || r.Verdict != store.OK {
			return fmt.Errorf("reserve: %v, %w", r.Verdict, err)
		}
	}
	return nil
}

// registered is a node with ten slots.
func registered(ctx context.Context, x *subject) error {
	r, err := x.sure.Register(ctx, store.RegisterParams{Node: crowdDeclared(core.NodeID(x.name), 10), Load: core.UnknownLoad})
	x.node = r.Node
	return err
}

// leased is a node with the subject's lease and another one.
func leased(ctx context.Context, x *subject) error {
	if err := registered(ctx, x); err != nil {
		return err
	}
	return x.reserve(ctx, x.ref(), x.other("j-2"))
}

// running is the same, and the node has confirmed.
func running(ctx context.Context, x *subject) error {
	if err := leased(ctx, x); err != nil {
		return err
	}
	_, err := x.sure.Commit(ctx, x.ref())
	return err
}

func nothing(context.Context, *subject) error { return nil }

var ledgerLosses = []loss{
	{name: "reserve", loses: "reserve", prepare: registered, call: func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		r, err := s.Reserve(ctx, store.ReserveParams{Lease: x.ref(), Epoch: x.node.Epoch, Revision: x.node.Revision})
		return fmt.Sprint(r), err
	}},
	{name: "commit", loses: "commit", prepare: leased, call: func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		held, err := s.Commit(ctx, x.ref())
		return fmt.Sprint(held), err
	}},
	{name: "release", loses: "ZREM", prepare: running, call: func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		err := s.Release(ctx, store.ReleaseParams{Lease: x.ref()})
		s.Quiesce()
		return "", err
	}},
	{name: "park", loses: "park", prepare: running, call: func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		return "", s.Release(ctx, store.ReleaseParams{Lease: x.ref(), Park: true})
	}},
	{name: "revoke", loses: "revoke", prepare: running, call: revoke},
	{name: "revoke parked", loses: "revoke", call: revoke, prepare: func(ctx context.Context, x *subject) error {
		if err := running(ctx, x); err != nil {
			return err
		}
		return x.sure.Release(ctx, store.ReleaseParams{Lease: x.ref(), Park: true})
	}},
}

func revoke(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
	return "", s.Revoke(ctx, x.ref())
}

func (x *subject) holder() core.Holder {
	return core.Holder{Attempt: 1, Node: core.NodeID(x.name), Epoch: 7}
}

func createAs(token core.Token) func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
	return func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		job, created, err := s.Create(ctx, store.CreateParams{
			ID: core.JobID(x.name), Spec: core.Spec{Request: core.RequestID(x.name)}, Fingerprint: "print",
			Holder: x.holder(), Token: token, Timeout: time.Minute,
		})
		return fmt.Sprint(created, describe(job)), err
	}
}

// recorded is a job.
func recorded(ctx context.Context, x *subject) (err error) {
	if _, err = createAs("t.1")(ctx, x.sure, x); err == nil {
		x.job, err = x.sure.Get(ctx, core.JobID(x.name))
	}
	return err
}

// apply makes a step from what the subject's job is when the call is made for the first time.
func apply(p store.ApplyParams) func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
	return func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		p := p
		p.Job, p.Seen = x.job.ID, x.job
		if !p.AnyHolder {
			p.Holder = x.job.Holder
		}
		if p.Event == core.EventMove || p.Event == core.EventRebind {
			p.To.Node = x.job.Node
		}
		a, err := s.Apply(ctx, p)
		if err != nil {
			return "", err
		}
		return fmt.Sprint(a.Outcome.Stands(), a.Job.State), nil
	}
}

// retrying is a job whose owner has so long.
func retrying(retryFor time.Duration) func(ctx context.Context, x *subject) error {
	return func(ctx context.Context, x *subject) error {
		if err := recorded(ctx, x); err != nil {
			return err
		}
		a, err := x.sure.Apply(ctx, store.ApplyParams{
			Job: x.job.ID, Event: core.EventRetry, Holder: x.job.Holder, Owner: "o.1", RetryFor: retryFor, Reason: core.ReasonNodeFailed,
		})
		x.job = a.Job
		return err
	}
}

var jobLosses = []loss{
	{name: "create", loses: "create", prepare: nothing, call: createAs("t.1")},
	{
		name: "create anew", loses: "replace", call: createAs("t.2"),
		prepare: func(ctx context.Context, x *subject) error {
			if err := recorded(ctx, x); err != nil {
				return err
			}
			_, err := x.sure.Apply(ctx, store.ApplyParams{Job: x.job.ID, Event: core.EventFail, AnyHolder: true, Reason: core.ReasonAllFull})
			return err
		},
		done: func(_, now state) bool { return strings.Contains(now["record"], "t.2") },
	},
	{name: "done", loses: "replace", prepare: recorded, call: apply(store.ApplyParams{Event: core.EventDone, Result: []byte(`{"a":1}`)})},
	{name: "fail", loses: "replace", prepare: recorded, call: apply(store.ApplyParams{Event: core.EventFail, Reason: core.ReasonMaxRetry})},
	{name: "cancel", loses: "replace", prepare: recorded, call: apply(store.ApplyParams{Event: core.EventCancel, AnyHolder: true, Reason: core.ReasonCancelled})},
	{name: "retry", loses: "replace", prepare: recorded, call: apply(store.ApplyParams{
		Event: core.EventRetry, Owner: "o.1", RetryFor: time.Minute, Reason: core.ReasonNodeFailed,
	})},
	{name: "move", loses: "replace", prepare: retrying(time.Minute), call: apply(store.ApplyParams{
		Event: core.EventMove, Owner: "o.1", Token: "t.2", To: core.Holder{Attempt: 2, Epoch: 8},
	})},
	{name: "rebind", loses: "replace", prepare: recorded, call: apply(store.ApplyParams{
		Event: core.EventRebind, To: core.Holder{Attempt: 1, Epoch: 8},
	})},
	// Taken over by its owner, a retry is renewed.
	{name: "takeover", loses: "replace", prepare: retrying(0), renews: []string{"record"}, call: apply(store.ApplyParams{
		Event: core.EventTakeover, Owner: "o.2", RetryFor: time.Minute,
	})},
}
