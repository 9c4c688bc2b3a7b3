package storetest

import (
	"context"
	"slices"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
)

// RepeatingStore repeats every write, as a caller does that lost the first reply. A store that passes the suite through it is
// idempotent. Allow, Post and AppendLog count each call, and are not
// repeated; neither is Offer, whose offers are taken back if their reply is lost.
type RepeatingStore struct{ store.Store }

// NewRepeatingStore makes a store that repeats every write of another.
func NewRepeatingStore(s store.Store) RepeatingStore {
	return RepeatingStore{repeatingTenants{s}}
}

// Register implements store.Nodes.
func (r RepeatingStore) Register(ctx context.Context, p store.RegisterParams) (store.Registration, error) {
	if _, err := r.Store.Register(ctx, p); err != nil {
		return store.Registration{}, err
	}
	return r.Store.Register(ctx, p)
}

// Heartbeat implements store.Nodes.
func (r RepeatingStore) Heartbeat(ctx context.Context, p store.HeartbeatParams) (store.HeartbeatResult, error) {
	if first, err := r.Store.Heartbeat(ctx, p); err != nil || first.Verdict != store.OK {
		return first, err
	}
	return r.Store.Heartbeat(ctx, p)
}

// KeepAlive implements store.Nodes.
func (r RepeatingStore) KeepAlive(ctx context.Context, p store.KeepAliveParams) (store.Verdict, error) {
	if v, err := r.Store.KeepAlive(ctx, p); err != nil || v != store.OK {
		return v, err
	}
	return r.Store.KeepAlive(ctx, p)
}

// Drain implements store.Nodes.
func (r RepeatingStore) Drain(ctx context.Context, p store.DrainParams) (*core.Node, error) {
	if n, err := r.Store.Drain(ctx, p); err != nil {
		return n, err
	}
	return r.Store.Drain(ctx, p)
}

// Admit implements store.Nodes.
func (r RepeatingStore) Admit(ctx context.Context, p store.AdmitParams) (*core.Node, bool, error) {
	if n, admitted, err := r.Store.Admit(ctx, p); err != nil || !admitted {
		return n, admitted, err
	}
	return r.Store.Admit(ctx, p)
}

// Connect implements store.Nodes.
func (r RepeatingStore) Connect(ctx context.Context, p store.ConnectParams) (*core.Node, error) {
	if n, err := r.Store.Connect(ctx, p); err != nil {
		return n, err
	}
	return r.Store.Connect(ctx, p)
}

// Remove implements store.Nodes.
func (r RepeatingStore) Remove(ctx context.Context, p store.RemoveParams) (bool, error) {
	if removed, err := r.Store.Remove(ctx, p); err != nil {
		return removed, err
	}
	return r.Store.Remove(ctx, p)
}

// Reserve implements store.Ledger.
func (r RepeatingStore) Reserve(ctx context.Context, p store.ReserveParams) (store.Reservation, error) {
	if first, err := r.Store.Reserve(ctx, p); err != nil || first.Verdict != store.OK {
		return first, err
	}
	return r.Store.Reserve(ctx, p)
}

// Commit implements store.Ledger.
func (r RepeatingStore) Commit(ctx context.Context, ref core.LeaseRef) (bool, error) {
	if held, err := r.Store.Commit(ctx, ref); err != nil || !held {
		return held, err
	}
	return r.Store.Commit(ctx, ref)
}

// Release implements store.Ledger.
func (r RepeatingStore) Release(ctx context.Context, p store.ReleaseParams) error {
	if err := r.Store.Release(ctx, p); err != nil {
		return err
	}
	return r.Store.Release(ctx, p)
}

// Revoke implements store.Ledger.
func (r RepeatingStore) Revoke(ctx context.Context, ref core.LeaseRef) error {
	if err := r.Store.Revoke(ctx, ref); err != nil {
		return err
	}
	return r.Store.Revoke(ctx, ref)
}

// Create implements store.Jobs.
func (r RepeatingStore) Create(ctx context.Context, p store.CreateParams) (*core.Job, bool, error) {
	if job, created, err := r.Store.Create(ctx, p); err != nil || !created {
		return job, created, err
	}
	return r.Store.Create(ctx, p)
}

// Apply implements store.Jobs.
func (r RepeatingStore) Apply(ctx context.Context, p store.ApplyParams) (store.Applied, error) {
	if first, err := r.Store.Apply(ctx, p); err != nil || first.Outcome != store.Decided {
		return first, err
	}
	return r.Store.Apply(ctx, p)
}

// Mark implements store.Marks.
func (r RepeatingStore) Mark(ctx context.Context, m store.Mark) error {
	if err := r.Store.Mark(ctx, m); err != nil {
		return err
	}
	return r.Store.Mark(ctx, m)
}

// Append implements store.Outbox.
func (r RepeatingStore) Append(ctx context.Context, p store.AppendParams) (store.Appended, error) {
	if seq, err := r.Store.Append(ctx, p); err != nil {
		return seq, err
	}
	return r.Store.Append(ctx, p)
}

// Lock implements store.Board.
func (r RepeatingStore) Lock(ctx context.Context, p store.LockParams) (store.Lock, error) {
	if l, err := r.Store.Lock(ctx, p); err != nil {
		return l, err
	}
	return r.Store.Lock(ctx, p)
}

// Unlock implements store.Board.
func (r RepeatingStore) Unlock(ctx context.Context, p store.LockParams) error {
	if err := r.Store.Unlock(ctx, p); err != nil {
		return err
	}
	return r.Store.Unlock(ctx, p)
}

// SaveSession implements store.Sessions.
func (r RepeatingStore) SaveSession(ctx context.Context, p store.SaveParams) (bool, error) {
	if held, err := r.Store.SaveSession(ctx, p); err != nil {
		return held, err
	}
	return r.Store.SaveSession(ctx, p)
}

// WriteValue implements store.Values.
func (r RepeatingStore) WriteValue(ctx context.Context, p store.WriteValueParams) (bool, error) {
	if written, err := r.Store.WriteValue(ctx, p); err != nil || !written {
		return written, err
	}
	return r.Store.WriteValue(ctx, p)
}

// Announce implements store.Instances.
func (r RepeatingStore) Announce(ctx context.Context, p store.AnnounceParams) error {
	if err := r.Store.Announce(ctx, p); err != nil {
		return err
	}
	return r.Store.Announce(ctx, p)
}

// Acknowledge implements store.Inboxes.
func (r RepeatingStore) Acknowledge(ctx context.Context, inbox core.InstanceID, ids ...string) error {
	if err := r.Store.Acknowledge(ctx, inbox, ids...); err != nil {
		return err
	}
	return r.Store.Acknowledge(ctx, inbox, ids...)
}

// DeadLetter implements store.Inboxes.
func (r RepeatingStore) DeadLetter(ctx context.Context, p store.DeadLetterParams) (string, error) {
	id, err := r.Store.DeadLetter(ctx, p)
	if err == nil {
		_, err = r.Store.DeadLetter(ctx, p) // which finds no such message any more
	}
	return id, err
}

// Replay implements store.AbandonedInboxes.
func (r RepeatingStore) Replay(ctx context.Context, p store.ReplayParams) (store.PostResult, error) {
	posted, err := r.Store.Replay(ctx, p)
	if err == nil && posted == store.Accepted {
		_, err = r.Store.Replay(ctx, p) // which finds no such message any more
	}
	return posted, err
}

// RemoveInbox implements store.AbandonedInboxes.
func (r RepeatingStore) RemoveInbox(ctx context.Context, id core.InstanceID) (bool, error) {
	if removed, err := r.Store.RemoveInbox(ctx, id); err != nil {
		return removed, err
	}
	return r.Store.RemoveInbox(ctx, id)
}

// PutRevocations implements store.Revocations. An entry that is put back is there already the second time.
func (r RepeatingStore) PutRevocations(ctx context.Context, p store.PutRevocationsParams) ([]store.Revocation, error) {
	first, err := r.Store.PutRevocations(ctx, p)
	if err != nil {
		return first, err
	}
	second, err := r.Store.PutRevocations(ctx, p)
	for i := range second { // a new entry is added again, with a later time
		at := slices.IndexFunc(first, func(f store.Revocation) bool { return f.RevocationTarget == second[i].RevocationTarget })
		first[at] = second[i]
	}
	return first, err
}

// Enqueue implements store.Waiting. The first result says whether the waiter is the first of its class, and why it was refused.
func (r RepeatingStore) Enqueue(ctx context.Context, pool core.PoolID, p fairqueue.EnqueueParams) (fairqueue.EnqueueResult, error) {
	first, err := r.Store.Enqueue(ctx, pool, p)
	if err != nil || first.Verdict != fairqueue.Queued {
		return first, err
	}
	if second, err := r.Store.Enqueue(ctx, pool, p); err != nil || second.Verdict != fairqueue.Queued {
		return second, err
	}
	return first, nil
}

// Settle implements store.Waiting.
func (r RepeatingStore) Settle(ctx context.Context, pool core.PoolID, w fairqueue.Waiter, how fairqueue.Settlement) error {
	if err := r.Store.Settle(ctx, pool, w, how); err != nil {
		return err
	}
	return r.Store.Settle(ctx, pool, w, how)
}

// Beat implements store.Waiting. Only one of two beats reports that offers were taken back.
func (r RepeatingStore) Beat(ctx context.Context, pool core.PoolID, instance core.InstanceID) (fairqueue.BeatResult, error) {
	if _, err := r.Store.Beat(ctx, pool, instance); err != nil {
		return fairqueue.BeatResult{}, err
	}
	return r.Store.Beat(ctx, pool, instance)
}
