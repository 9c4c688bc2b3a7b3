//go:build !race

package redisstore_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
)

// allLostReplies are all calls that write, and each way in which they write. Published changes are not among them: they are only hints,
// and may be repeated.
var allLostReplies = slices.Concat(ledgerLostReplies, jobLostReplies, nodeLostReplies, boardLostReplies, inboxLostReplies, waitingLostReplies, tenantLostReplies)

func (x *subject) ownLease() core.LeaseRef {
	return core.LeaseRef{Node: core.NodeID(x.name), Job: core.JobID(x.name), Attempt: 1, Token: "t.1"}
}

// otherLease returns a lease of another job on the subject's node.
func (x *subject) otherLease(job string) core.LeaseRef {
	return core.LeaseRef{Node: core.NodeID(x.name), Job: core.JobID(job), Attempt: 1, Token: "t.1"}
}

func (x *subject) reserve(ctx context.Context, refs ...core.LeaseRef) error {
	for _, ref := range refs {
		r, err := x.reliable.Reserve(ctx, store.ReserveParams{Lease: ref, Epoch: x.node.Epoch, Revision: x.node.Revision})
		if err != nil || r.Verdict != store.OK {
			return fmt.Errorf("reserve: %v, %w", r.Verdict, err)
		}
	}
	return nil
}

// withNode prepares a node with ten slots.
func withNode(ctx context.Context, x *subject) error {
	r, err := x.reliable.Register(ctx, store.RegisterParams{Node: declaredNode(core.NodeID(x.name), 10), Load: core.UnknownLoad})
	x.node = r.Node
	return err
}

// withLeases prepares a node with the subject's lease and another one.
func withLeases(ctx context.Context, x *subject) error {
	if err := withNode(ctx, x); err != nil {
		return err
	}
	return x.reserve(ctx, x.ownLease(), x.otherLease("j-2"))
}

// withRunningJob prepares the same, and commits the subject's lease.
func withRunningJob(ctx context.Context, x *subject) error {
	if err := withLeases(ctx, x); err != nil {
		return err
	}
	_, err := x.reliable.Commit(ctx, x.ownLease())
	return err
}

func withNothing(context.Context, *subject) error { return nil }

var ledgerLostReplies = []lostReply{
	{name: "reserve for a probe", command: "reserve_probe", prepare: withNode, call: func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		r, err := s.Reserve(ctx, store.ReserveParams{Lease: x.ownLease(), Epoch: x.node.Epoch, Revision: x.node.Revision, Probe: true})
		return r.Verdict.String(), err
	}},
	{name: "reserve", command: "reserve", prepare: withNode, call: func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		r, err := s.Reserve(ctx, store.ReserveParams{Lease: x.ownLease(), Epoch: x.node.Epoch, Revision: x.node.Revision})
		return fmt.Sprint(r), err
	}},
	{name: "commit", command: "commit", prepare: withLeases, call: func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		held, err := s.Commit(ctx, x.ownLease())
		return fmt.Sprint(held), err
	}},
	{name: "release", command: "ZREM", prepare: withRunningJob, call: func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		err := s.Release(ctx, store.ReleaseParams{Lease: x.ownLease()})
		s.WaitForReleases()
		return "", err
	}},
	{name: "park", command: "park", prepare: withRunningJob, call: func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		return "", s.Release(ctx, store.ReleaseParams{Lease: x.ownLease(), Park: true})
	}},
	{name: "revoke", command: "revoke", prepare: withRunningJob, call: revokeLease},
	{name: "revoke parked", command: "revoke", call: revokeLease, prepare: func(ctx context.Context, x *subject) error {
		if err := withRunningJob(ctx, x); err != nil {
			return err
		}
		return x.reliable.Release(ctx, store.ReleaseParams{Lease: x.ownLease(), Park: true})
	}},
}

func revokeLease(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
	return "", s.Revoke(ctx, x.ownLease())
}

func (x *subject) holder() core.Holder {
	return core.Holder{Attempt: 1, Node: core.NodeID(x.name), Epoch: 7}
}

func createJob(token core.Token) func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
	return func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		job, created, err := s.Create(ctx, store.CreateParams{
			ID: core.JobID(x.name), Spec: core.Spec{Request: core.RequestID(x.name)}, Fingerprint: "print",
			Holder: x.holder(), Token: token, Timeout: time.Minute,
		})
		return fmt.Sprint(created, describeJob(job)), err
	}
}

// withRecord prepares the record of a job.
func withRecord(ctx context.Context, x *subject) (err error) {
	if _, err = createJob("t.1")(ctx, x.reliable, x); err == nil {
		x.job, err = x.reliable.Get(ctx, core.JobID(x.name))
	}
	return err
}

// applyEvent applies an event to the subject's job as it is before the first call.
func applyEvent(p store.ApplyParams) func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
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

// withRetry prepares a job in RETRYING, with the time of its owner.
func withRetry(retryFor time.Duration) func(ctx context.Context, x *subject) error {
	return func(ctx context.Context, x *subject) error {
		if err := withRecord(ctx, x); err != nil {
			return err
		}
		a, err := x.reliable.Apply(ctx, store.ApplyParams{
			Job: x.job.ID, Event: core.EventRetry, Holder: x.job.Holder, Owner: "o.1", RetryFor: retryFor, Reason: core.ReasonNodeFailed,
		})
		x.job = a.Job
		return err
	}
}

var jobLostReplies = []lostReply{
	{name: "create", command: "create", prepare: withNothing, call: createJob("t.1")},
	{
		name: "create after a refusal", command: "replace", call: createJob("t.2"),
		prepare: func(ctx context.Context, x *subject) error {
			if err := withRecord(ctx, x); err != nil {
				return err
			}
			_, err := x.reliable.Apply(ctx, store.ApplyParams{Job: x.job.ID, Event: core.EventFail, AnyHolder: true, Reason: core.ReasonAllFull})
			return err
		},
		done: func(_, now redisState) bool { return strings.Contains(now["record"], "t.2") },
	},
	{name: "done", command: "replace", prepare: withRecord, call: applyEvent(store.ApplyParams{Event: core.EventDone, Result: []byte(`{"a":1}`)})},
	{name: "fail", command: "replace", prepare: withRecord, call: applyEvent(store.ApplyParams{Event: core.EventFail, Reason: core.ReasonMaxRetry})},
	{name: "cancel", command: "replace", prepare: withRecord, call: applyEvent(store.ApplyParams{Event: core.EventCancel, AnyHolder: true, Reason: core.ReasonCancelled})},
	{name: "retry", command: "replace", prepare: withRecord, call: applyEvent(store.ApplyParams{
		Event: core.EventRetry, Owner: "o.1", RetryFor: time.Minute, Reason: core.ReasonNodeFailed,
	})},
	{name: "move", command: "replace", prepare: withRetry(time.Minute), call: applyEvent(store.ApplyParams{
		Event: core.EventMove, Owner: "o.1", Token: "t.2", To: core.Holder{Attempt: 2, Epoch: 8},
	})},
	{name: "rebind", command: "replace", prepare: withRecord, call: applyEvent(store.ApplyParams{
		Event: core.EventRebind, To: core.Holder{Attempt: 1, Epoch: 8},
	})},
	// A takeover by the same owner renews the retry.
	{name: "takeover", command: "replace", prepare: withRetry(0), renews: []string{"record"}, call: applyEvent(store.ApplyParams{
		Event: core.EventTakeover, Owner: "o.2", RetryFor: time.Minute,
	})},
}

func appendMessage(index int64) func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
	return func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		a, err := s.Append(ctx, store.AppendParams{
			Session: x.session(), Index: index, Body: fmt.Appendf(nil, "body %d", index), Keep: time.Minute,
		})
		a.Exists = false // true for the repeated call only
		return fmt.Sprint(a), err
	}
}

func acquireLock(holder string) func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
	return func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		l, err := s.Lock(ctx, store.LockParams{Name: x.name, Holder: holder, TTL: time.Minute})
		return fmt.Sprint(l.Held), err
	}
}

func (x *subject) revocation() store.Revocation {
	return store.Revocation{RevocationTarget: store.RevocationTarget{Kind: store.RevokedKey, Name: x.name}, Reason: "because"}
}

// writeValue writes a value with the name of the subject.
func writeValue(p store.WriteValueParams) func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
	return func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		p := p
		p.Key.Name = x.name
		written, err := s.WriteValue(ctx, p)
		return fmt.Sprint(written), err
	}
}

var boardLostReplies = []lostReply{
	{name: "append", command: "append", prepare: after(withNothing, appendMessage(0)), call: appendMessage(1)},
	{name: "append with a gap", command: "append", prepare: withNothing, call: appendMessage(1)},
	{name: "append into a gap", command: "append", prepare: after(withNothing, appendMessage(1)), call: appendMessage(0)},
	{name: "lock", command: "lock", prepare: withNothing, call: acquireLock("me")},
	{name: "unlock", command: "unlock", prepare: after(withNothing, acquireLock("me")), call: func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		return "", s.Unlock(ctx, store.LockParams{Name: x.name, Holder: "me"})
	}},
	{name: "counts", command: "SET", prepare: withNothing, call: writeValue(store.WriteValueParams{
		Key: store.ValueKey{Kind: store.CountsValue}, Parts: map[string][]byte{store.BodyPart: []byte("body")}, TTL: time.Minute,
	})},
	{name: "snapshot", command: "write_value", prepare: withNothing, call: writeValue(store.WriteValueParams{
		Key: store.ValueKey{Kind: store.SnapshotValue}, Parts: map[string][]byte{store.BodyPart: []byte("body")}, TTL: time.Minute, Fence: 1,
	})},
	{name: "history", command: "write_value", prepare: withNothing, call: func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		return writeValue(store.WriteValueParams{
			Key: store.ValueKey{Kind: store.HistoryValue}, Parts: map[string][]byte{x.name: []byte("body")}, TTL: time.Hour, Fence: 1,
		})(ctx, s, x)
	}},
	{name: "setting", command: "write_value", prepare: withNothing, call: writeValue(store.WriteValueParams{
		Key: store.ValueKey{Kind: store.SettingValue}, Parts: map[string][]byte{"generation": []byte("1"), store.BodyPart: []byte("body")}, Replaces: new(string),
	})},
	{name: "add revocation", command: "merge_revocations", prepare: withNothing, call: func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		put, err := s.PutRevocations(ctx, store.PutRevocationsParams{Entries: []store.Revocation{x.revocation()}, Keep: time.Hour})
		if err != nil || len(put) != 1 {
			return "", fmt.Errorf("%v were added: %w", put, err)
		}
		return fmt.Sprint(put[0].RevocationTarget, put[0].Reason, !put[0].At.IsZero(), !put[0].Until.IsZero()), nil
	}},
	{name: "restore revocation", command: "merge_revocations", prepare: withNothing, call: func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		r := x.revocation()
		r.At = time.UnixMicro(1_700_000_000_000_000)
		return "", errOf(s.PutRevocations(ctx, store.PutRevocationsParams{Entries: []store.Revocation{r}}))
	}},
	// This counts calls by design. A repeated call is refused earlier, never later.
	{name: "allow", command: "allow", prepare: withNothing, counts: true, call: func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		ok, err := s.Allow(ctx, store.AllowParams{Key: x.name, Limit: 1, Window: time.Minute})
		return fmt.Sprint(ok), err
	}},
}
