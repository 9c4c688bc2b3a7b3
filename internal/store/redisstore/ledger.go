package redisstore

import (
	"context"
	"errors"
	"strconv"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Reserve implements store.Ledger.
func (s *Store) Reserve(ctx context.Context, p store.ReserveParams) (store.Reservation, error) {
	_, r, err := s.line.run(ctx, &scriptReserve, []string{s.keys.meta(p.Lease.Node), s.keys.leases(p.Lease.Node)},
		member(p.Lease), gate(p.Epoch, p.Revision), s.presence)
	switch {
	case errors.Is(err, errLate):
		return store.Reservation{Verdict: store.TooLate}, nil
	case err != nil:
		return store.Reservation{}, err
	}
	return store.Reservation{Verdict: store.Verdict(r.int(0)), Free: int(r.int(1))}, nil
}

// gate is what a node's record says of it while it is open to those who know it as it is.
func gate(epoch core.Epoch, revision core.Revision) string {
	b := strconv.AppendInt(make([]byte, 0, 32), int64(epoch), 10)
	return string(strconv.AppendInt(append(b, '.'), int64(revision), 10))
}

// Commit implements store.Ledger.
func (s *Store) Commit(ctx context.Context, ref core.LeaseRef) (bool, error) {
	_, r, err := s.line.run(ctx, &scriptCommit, []string{s.keys.leases(ref.Node)}, member(ref), s.presence)
	if err != nil {
		return false, err
	}
	return r.int(0) == 1, nil
}

// Release implements store.Ledger. Nobody waits for the slot to be free, so this answers when it is on its way, and
// sees to it that it arrives; if it cannot for as long as a lease lives, the lease lapses. A parked one is waited for:
// its job may be looked for at once.
func (s *Store) Release(ctx context.Context, p store.ReleaseParams) error {
	leases, name := s.keys.leases(p.Lease.Node), member(p.Lease)
	if p.Park {
		_, _, err := s.line.run(ctx, &scriptPark, []string{leases}, name)
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.release(slot{leases, name})
	return nil
}

// Revoke implements store.Ledger.
func (s *Store) Revoke(ctx context.Context, ref core.LeaseRef) error {
	_, _, err := s.line.run(ctx, &scriptRevoke, []string{s.keys.leases(ref.Node)}, member(ref))
	return err
}

// Leases implements store.Holdings.
func (s *Store) Leases(ctx context.Context, refs ...core.LeaseRef) ([]core.Lease, error) {
	leases := make([]core.Lease, len(refs))
	asks := make([]ask, len(refs))
	for i := range refs {
		asks[i] = ask{keys: []string{s.keys.leases(refs[i].Node)}, args: []string{member(refs[i])}}
	}
	err := s.line.readEach(ctx, &scriptLease, asks, func(i int, now int64, r reply) error {
		if !r.none(0) {
			leases[i] = s.lease(refs[i].Node, asks[i].args[0], r.text(0), now)
		}
		return nil
	})
	return leases, err
}

// Probe implements store.Holdings.
func (s *Store) Probe(ctx context.Context, nodes []core.NodeID, into []store.Occupancy) error {
	asks := make([]ask, len(nodes))
	for i, id := range nodes {
		asks[i] = ask{keys: []string{s.keys.meta(id), s.keys.leases(id)}, args: []string{s.presence}}
	}
	return s.line.readEach(ctx, &scriptProbe, asks, func(i int, _ int64, r reply) error {
		into[i] = store.Occupancy{}
		if !r.none(0) {
			into[i] = occupancy(r.list(0))
		}
		return nil
	})
}

// Orphans implements store.Holdings.
func (s *Store) Orphans(ctx context.Context, nodes ...core.NodeID) ([]core.Lease, error) {
	asks := make([]ask, len(nodes))
	for i, node := range nodes {
		asks[i] = ask{keys: []string{s.keys.leases(node)}}
	}
	var all []core.Lease
	err := s.line.readEach(ctx, &scriptOrphans, asks, func(i int, now int64, r reply) error {
		all = append(all, s.leases(nodes[i], r.texts(0), now)...)
		return nil
	})
	return all, err
}
