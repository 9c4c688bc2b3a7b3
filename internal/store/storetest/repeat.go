package storetest

import (
	"context"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Repeated is a store whose every write is carried out twice, as a caller does who lost the first reply.
// What passes the suite through it has no second effect. Debounce and Allow count each call: they are asked
// once.
type Repeated struct{ store.Store }

// Register implements store.Nodes.
func (r Repeated) Register(ctx context.Context, p store.RegisterParams) (store.Registration, error) {
	if _, err := r.Store.Register(ctx, p); err != nil {
		return store.Registration{}, err
	}
	return r.Store.Register(ctx, p)
}

// Heartbeat implements store.Nodes.
func (r Repeated) Heartbeat(ctx context.Context, p store.HeartbeatParams) (store.HeartbeatResult, error) {
	if first, err := r.Store.Heartbeat(ctx, p); err != nil || first.Verdict != store.OK {
		return first, err
	}
	return r.Store.Heartbeat(ctx, p)
}

// Drain implements store.Nodes.
func (r Repeated) Drain(ctx context.Context, p store.DrainParams) (*core.Node, error) {
	if n, err := r.Store.Drain(ctx, p); err != nil {
		return n, err
	}
	return r.Store.Drain(ctx, p)
}

// Connect implements store.Nodes.
func (r Repeated) Connect(ctx context.Context, p store.ConnectParams) (*core.Node, error) {
	if n, err := r.Store.Connect(ctx, p); err != nil {
		return n, err
	}
	return r.Store.Connect(ctx, p)
}

// Remove implements store.Nodes.
func (r Repeated) Remove(ctx context.Context, p store.RemoveParams) error {
	if err := r.Store.Remove(ctx, p); err != nil {
		return err
	}
	return r.Store.Remove(ctx, p)
}

// Reserve implements store.Ledger.
func (r Repeated) Reserve(ctx context.Context, p store.ReserveParams) (store.Reservation, error) {
	if first, err := r.Store.Reserve(ctx, p); err != nil || first.Verdict != store.OK {
		return first, err
	}
	return r.Store.Reserve(ctx, p)
}

// Commit implements store.Ledger.
func (r Repeated) Commit(ctx context.Context, ref core.LeaseRef) (bool, error) {
	if held, err := r.Store.Commit(ctx, ref); err != nil || !held {
		return held, err
	}
	return r.Store.Commit(ctx, ref)
}

// Release implements store.Ledger.
func (r Repeated) Release(ctx context.Context, p store.ReleaseParams) error {
	if err := r.Store.Release(ctx, p); err != nil {
		return err
	}
	return r.Store.Release(ctx, p)
}

// Revoke implements store.Ledger.
func (r Repeated) Revoke(ctx context.Context, ref core.LeaseRef) error {
	if err := r.Store.Revoke(ctx, ref); err != nil {
		return err
	}
	return r.Store.Revoke(ctx, ref)
}

// Create implements store.Jobs.
func (r Repeated) Create(ctx context.Context, p store.CreateParams) (*core.Job, bool, error) {
	if job, created, err := r.Store.Create(ctx, p); err != nil || !created {
		return job, created, err
	}
	return r.Store.Create(ctx, p)
}

// Apply implements store.Jobs.
func (r Repeated) Apply(ctx context.Context, p store.ApplyParams) (store.Applied, error) {
	if first, err := r.Store.Apply(ctx, p); err != nil || first.Outcome != store.Decided {
		return first, err
	}
	return r.Store.Apply(ctx, p)
}

// Mark implements store.Marks.
func (r Repeated) Mark(ctx context.Context, m store.Mark) error {
	if err := r.Store.Mark(ctx, m); err != nil {
		return err
	}
	return r.Store.Mark(ctx, m)
}

// Append implements store.Outbox.
func (r Repeated) Append(ctx context.Context, p store.AppendParams) (store.Appended, error) {
	if seq, err := r.Store.Append(ctx, p); err != nil {
		return seq, err
	}
	return r.Store.Append(ctx, p)
}

// Lock implements store.Board.
func (r Repeated) Lock(ctx context.Context, p store.LockParams) (store.Lock, error) {
	if l, err := r.Store.Lock(ctx, p); err != nil {
		return l, err
	}
	return r.Store.Lock(ctx, p)
}

// Unlock implements store.Board.
func (r Repeated) Unlock(ctx context.Context, p store.LockParams) error {
	if err := r.Store.Unlock(ctx, p); err != nil {
		return err
	}
	return r.Store.Unlock(ctx, p)
}

// SaveSession implements store.Sessions.
func (r Repeated) SaveSession(ctx context.Context, p store.SaveParams) (bool, error) {
	if held, err := r.Store.SaveSession(ctx, p); err != nil {
		return held, err
	}
	return r.Store.SaveSession(ctx, p)
}

// SaveSnapshot implements store.Board.
func (r Repeated) SaveSnapshot(ctx context.Context, p store.SnapshotParams) error {
	if err := r.Store.SaveSnapshot(ctx, p); err != nil {
		return err
	}
	return r.Store.SaveSnapshot(ctx, p)
}

// Announce implements store.Instances.
func (r Repeated) Announce(ctx context.Context, p store.AnnounceParams) error {
	if err := r.Store.Announce(ctx, p); err != nil {
		return err
	}
	return r.Store.Announce(ctx, p)
}

// Withdraw implements store.Instances.
func (r Repeated) Withdraw(ctx context.Context, id core.InstanceID) error {
	if err := r.Store.Withdraw(ctx, id); err != nil {
		return err
	}
	return r.Store.Withdraw(ctx, id)
}

// Settle implements store.Mail.
func (r Repeated) Acknowledge(ctx context.Context, inbox core.InstanceID, ids ...string) error {
	if err := r.Store.Acknowledge(ctx, inbox, ids...); err != nil {
		return err
	}
	return r.Store.Acknowledge(ctx, inbox, ids...)
}

// Condemn implements store.Mail.
func (r Repeated) DeadLetter(ctx context.Context, p store.DeadLetterParams) (string, error) {
	id, err := r.Store.DeadLetter(ctx, p)
	if err == nil {
		_, err = r.Store.DeadLetter(ctx, p) // which finds no such letter any more
	}
	return id, err
}

// Replay implements store.Estates.
func (r Repeated) Replay(ctx context.Context, p store.ReplayParams) (store.PostResult, error) {
	posted, err := r.Store.Replay(ctx, p)
	if err == nil && posted == store.Accepted {
		_, err = r.Store.Replay(ctx, p) // which finds no such letter any more
	}
	return posted, err
}

// Bury implements store.Estates.
func (r Repeated) RemoveInbox(ctx context.Context, id core.InstanceID) (bool, error) {
	if done, err := r.Store.RemoveInbox(ctx, id); err != nil {
		return done, err
	}
	return r.Store.RemoveInbox(ctx, id)
}
