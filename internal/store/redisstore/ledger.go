package redisstore

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Reserve implements store.Ledger.
func (s *Store) Reserve(ctx context.Context, p store.ReserveParams) (store.Reservation, error) {
	reserve := &scriptReserve
	if p.Probe {
		reserve = &scriptReserveProbe
	}
	_, r, err := s.client.runScript(ctx, reserve, []string{s.keys.meta(p.Lease.Node), s.keys.leases(p.Lease.Node)},
		member(p.Lease), grantKey(p.Epoch, p.Revision), s.presenceMS)
	switch {
	case errors.Is(err, errLate):
		return store.Reservation{Verdict: store.TooLate}, nil
	case err != nil:
		return store.Reservation{}, err
	}
	return store.Reservation{Verdict: store.Verdict(r.int(0)), Free: int(r.int(1))}, nil
}

// grantKey is the value of a node's field grant while jobs may be granted on this epoch and revision.
func grantKey(epoch core.Epoch, revision core.Revision) string {
	b := strconv.AppendInt(make([]byte, 0, 32), int64(epoch), 10)
	return string(strconv.AppendInt(append(b, '.'), int64(revision), 10))
}

// Commit implements store.Ledger.
func (s *Store) Commit(ctx context.Context, ref core.LeaseRef) (bool, error) {
	_, r, err := s.client.runScript(ctx, &scriptCommit, []string{s.keys.leases(ref.Node)}, member(ref), s.presenceMS)
	if err != nil {
		return false, err
	}
	return r.int(0) == 1, nil
}

// Release implements store.Ledger. A removal is queued and retried until the lease would have expired; no caller waits for it. Parking
// is done before Release returns, because the job may be looked for at once.
func (s *Store) Release(ctx context.Context, p store.ReleaseParams) error {
	leases, name := s.keys.leases(p.Lease.Node), member(p.Lease)
	if p.Park {
		_, _, err := s.client.runScript(ctx, &scriptPark, []string{leases}, name)
		if err == nil {
			p.Finish()
		}
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.enqueueRelease(queuedRelease{leases, name, p.Finish})
	return nil
}

// Revoke implements store.Ledger.
func (s *Store) Revoke(ctx context.Context, ref core.LeaseRef) error {
	_, _, err := s.client.runScript(ctx, &scriptRevoke, []string{s.keys.leases(ref.Node)}, member(ref))
	return err
}

// Leases implements store.LeaseReader.
func (s *Store) Leases(ctx context.Context, refs ...core.LeaseRef) ([]core.Lease, error) {
	leases := make([]core.Lease, len(refs))
	calls := make([]scriptCall, len(refs))
	for i := range refs {
		calls[i] = scriptCall{keys: []string{s.keys.leases(refs[i].Node)}, args: []string{member(refs[i])}}
	}
	err := s.client.readEach(ctx, &scriptLease, calls, func(i int, now int64, r reply) {
		if !r.isNil(0) {
			leases[i] = s.decodeLease(refs[i].Node, calls[i].args[0], r.text(0), now)
		}
	})
	return leases, err
}

// Probe implements store.LeaseReader.
func (s *Store) Probe(ctx context.Context, nodes []core.NodeID, into []store.Occupancy) error {
	calls := make([]scriptCall, len(nodes))
	for i, id := range nodes {
		calls[i] = scriptCall{keys: []string{s.keys.meta(id), s.keys.leases(id)}, args: []string{s.presenceMS}}
	}
	clear(into[:len(nodes)])
	return s.client.readEach(ctx, &scriptProbe, calls, func(i int, _ int64, r reply) {
		if !r.isNil(0) {
			into[i] = occupancy(r.list(0))
		}
	})
}

// Orphans implements store.LeaseReader.
func (s *Store) Orphans(ctx context.Context, nodes ...core.NodeID) ([]core.Lease, error) {
	calls := make([]scriptCall, len(nodes))
	for i, node := range nodes {
		calls[i] = scriptCall{keys: []string{s.keys.leases(node)}}
	}
	var all []core.Lease
	err := s.client.readEach(ctx, &scriptLeases, calls, func(i int, now int64, r reply) {
		all = append(all, s.decodeLeases(nodes[i], r.texts(0), now)...)
	})
	return all, err
}

// member returns the member of a lease in its node's set. No part of it can contain the bar.
func member(ref core.LeaseRef) string {
	b := append(make([]byte, 0, 96), ref.Job...)
	b = strconv.AppendInt(append(b, '|'), int64(ref.Attempt), 10)
	return string(append(append(b, '|'), ref.Token...))
}

// activeName returns a listed job as scripts take it: the first two parts of a member.
func activeName(job core.JobID, attempt int) string { return string(job) + "|" + strconv.Itoa(attempt) }

func parseMember(node core.NodeID, name string) core.LeaseRef {
	job, rest, _ := strings.Cut(name, "|")
	number, token, _ := strings.Cut(rest, "|")
	attempt, _ := strconv.Atoi(number)
	return core.LeaseRef{Node: node, Job: core.JobID(job), Attempt: attempt, Token: core.Token(token)}
}

// decodeLease decodes a member and its score.
func (s *Store) decodeLease(node core.NodeID, name, score string, now int64) core.Lease {
	value, _ := strconv.ParseFloat(score, 64) // an integer below 2^53, which Redis may write with an exponent
	if !(value >= 0 && value < maxScore) {
		value = 0 // no script has written it: it is that of a lease that has expired
	}
	whole := int64(value)
	rest := whole / scoreCodes
	reserved := rest/scoreAges - rest%scoreAges
	l := core.Lease{LeaseRef: parseMember(node, name), State: leaseStateByCode[whole%scoreCodes%leaseStates]}
	age := ((now-scoreEpochMS)/tickMS - reserved - 1) * tickMS // at least: both times are known to the tick
	l.Young = l.State == core.LeaseReserved && age < s.timing.ReservedTTL.Milliseconds()
	return l
}

// decodeLeases decodes alternating members and scores.
func (s *Store) decodeLeases(node core.NodeID, flat []string, now int64) []core.Lease {
	var list []core.Lease
	for i := 0; i+1 < len(flat); i += 2 {
		list = append(list, s.decodeLease(node, flat[i], flat[i+1], now))
	}
	return list
}

// occupancy decodes the occupancy of a node.
func occupancy(r reply) store.Occupancy {
	return store.Occupancy{
		Max: int(r.int(0)), Reserved: int(r.int(1)), Running: int(r.int(2)), Foreign: int(r.int(3)),
		Closed: r.int(4) == 1, Held: r.int(5) == 1, Withheld: int(r.int(6)),
	}
}

// maxReleaseWorkers is how many pipelines of releases are in flight at once. With one, each would wait for the reply to the last.
const maxReleaseWorkers = 2

// releaseBackoff is the wait between two tries of a release.
var releaseBackoff = run.Backoff{Min: 50 * time.Millisecond, Max: time.Second}

// releaseQueue sends releases to Redis in pipelines. No caller waits for them.
type releaseQueue struct {
	mu      run.Mutex
	queue   []queuedRelease
	workers int
	work    sync.WaitGroup
}

// queuedRelease is the release of a lease in its node's set.
type queuedRelease struct {
	key, member string
	done        func()
}

// enqueueRelease queues a release, unless the store is closed.
func (s *Store) enqueueRelease(m queuedRelease) {
	s.closing.RLock()
	defer s.closing.RUnlock()
	if s.closed {
		return
	}
	r := &s.releases
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = append(r.queue, m)
	if r.workers < maxReleaseWorkers {
		r.workers++
		r.work.Go(s.sendReleases)
	}
}

// sendReleases sends queued releases until the queue is empty.
func (s *Store) sendReleases() {
	r := &s.releases
	for {
		r.mu.Lock()
		n := min(len(r.queue), batchSize)
		batch := slices.Clone(r.queue[:n])
		r.queue = slices.Delete(r.queue, 0, n)
		if n == 0 {
			r.workers--
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()

		cmds := make([]rueidis.Completed, n)
		for i, m := range batch {
			cmds[i] = s.zrem(m)
		}
		_, err := s.client.doMulti(s.client.beginCall(s.ctx), cmds)
		for _, m := range batch {
			if err != nil {
				r.work.Go(func() { s.retryRelease(s.ctx, m) })
			} else {
				m.done()
			}
		}
	}
}

// retryRelease retries one release until it succeeds or the lease has expired.
func (s *Store) retryRelease(ctx context.Context, m queuedRelease) {
	until := time.Now().Add(s.timing.Presence)
	for retry := releaseBackoff; time.Now().Before(until); {
		if !retry.Wait(ctx) {
			return
		}
		if _, err := s.client.command(ctx, s.zrem(m)); err == nil {
			m.done()
			return
		}
	}
}

func (s *Store) zrem(m queuedRelease) rueidis.Completed {
	return s.client.redis.B().Zrem().Key(m.key).Member(m.member).Build()
}
