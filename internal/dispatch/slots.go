package dispatch

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/internal/waiting"
)

// storeClient is the store, with its errors counted and logged.
type storeClient struct {
	Store
	*telemetry.StoreErrors
	reachable func() bool
}

// slots gives slots back: it releases and revokes leases. No caller waits for a repeat: if the store does not answer at
// once, the operation is retried in the background.
type slots struct {
	store     *storeClient
	fleet     *fleet.Fleet
	transport Transport
	waiting   *waiting.Queue
	tasks     *run.Group
}

// release frees the slot of a lease. With park the lease's name stays, so that the job can still be found through it.
func (s *slots) release(lease core.LeaseRef, n *fleet.Node, park bool) {
	p := store.ReleaseParams{Lease: lease, Park: park}
	if n != nil {
		p.Handle = n.Handle()
	}
	if err := s.tryRelease(s.tasks.Context(), p, n); err != nil {
		s.store.RecordError("release", err)
		s.tasks.Go(func(ctx context.Context) {
			s.store.Retry(ctx, func() error { return s.tryRelease(ctx, p, n) })
		})
	}
}

// releaseUncertain releases a lease that may not have been granted. No request is woken for its slot: while reservations fail, a request
// would be woken by its own failure, without end.
func (s *slots) releaseUncertain(lease core.LeaseRef, n *fleet.Node) {
	p := store.ReleaseParams{Lease: lease, Handle: n.Handle()}
	if err := s.store.Release(s.tasks.Context(), p); err != nil {
		s.store.RecordError("release", err)
		s.tasks.Go(func(ctx context.Context) {
			s.store.Retry(ctx, func() error { return s.store.Release(ctx, p) })
		})
	}
}

func (s *slots) tryRelease(ctx context.Context, p store.ReleaseParams, n *fleet.Node) error {
	if n != nil {
		p.Done = func() { s.waiting.SlotFreed(n) }
	}
	return s.store.Release(ctx, p)
}

// giveUp releases the slot of a reservation whose job does not begin.
func (s *slots) giveUp(r *reservation) {
	s.release(r.lease, r.member.Node, false)
	r.member.EndJob()
}

// releaseOrRevoke gives back the slot of an attempt that has ended: it releases the lease if the node confirmed that it does
// not have the job; otherwise it revokes the lease and cancels the job, and the slot stays taken until the node stops
// listing it.
func (s *slots) releaseOrRevoke(old *core.Job, confirmed bool) {
	lease := leaseOf(old)
	if confirmed {
		s.release(lease, s.fleet.Node(old.Node), false)
		return
	}
	if err := s.store.Revoke(s.tasks.Context(), lease); err != nil {
		s.store.RecordError("revoke", err)
		s.tasks.Go(func(ctx context.Context) {
			s.store.Retry(ctx, func() error { return s.store.Revoke(ctx, lease) })
		})
	}
	s.transport.Cancel(s.tasks.Context(), lease.Node, lease.Job, lease.Attempt)
}

// leaseOf names the lease of a job's current attempt.
func leaseOf(job *core.Job) core.LeaseRef {
	return core.LeaseRef{Node: job.Node, Job: job.ID, Attempt: job.Attempt, Token: job.Token}
}

// tokenSource makes tokens: names of reservations and of retries, which begin with the instance that made them.
type tokenSource struct {
	instance core.InstanceID
	count    atomic.Uint64
}

func (t *tokenSource) next() core.Token {
	buf := make([]byte, 0, len(t.instance)+14)
	buf = append(buf, t.instance...)
	buf = append(buf, '.')
	return core.Token(strconv.AppendUint(buf, t.count.Add(1), 36))
}

// owns reports whether a job's record names this instance as the one that runs it.
func (t *tokenSource) owns(job *core.Job) bool {
	token := job.Token
	if job.State == core.StateRetrying {
		token = job.Owner
	}
	prefix := core.Token(t.instance) + "."
	return len(token) > len(prefix) && token[:len(prefix)] == prefix
}

// issuedBy reports whether an instance made a token.
func issuedBy(t core.Token, instance core.InstanceID) bool {
	return strings.HasPrefix(string(t), string(instance)+".")
}

// dispatcherOf returns the instance that dispatched the current attempt of a job.
func dispatcherOf(job *core.Job) core.InstanceID {
	at := strings.LastIndexByte(string(job.Token), '.')
	return core.InstanceID(job.Token[:max(at, 0)])
}
