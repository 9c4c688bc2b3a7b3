package waiting

import (
	"maps"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
)

const (
	// shareInterval is how often the shares of tenants are sampled while somebody waits.
	shareInterval = 5 * time.Second
	// shareWindow is over how long shares are shown.
	shareWindow = time.Minute
	// maxSharers is of how many tenants shares are remembered, each pool counted for itself.
	maxSharers = 1000
)

// Share is how many slots a tenant was granted while other tenants waited for the same, and how many of these were its part by the
// weights.
type Share struct {
	Granted  int
	Entitled float64
	Window   time.Duration // over how long; 0: since the tenant began to wait, because this instance did not observe it before
}

// sharer is a tenant that waits in the queue of a pool.
type sharer struct {
	pool   core.PoolID
	tenant core.TenantID
}

// shareCount is what the queue has counted of a tenant since it began to wait.
type shareCount struct{ granted, entitled int64 }

// since returns what was counted since an earlier time. The queue counts from zero when the tenant has not waited for a while. What a
// tenant is entitled to can become a little less without that: it is estimated while a class is open and rounded when it closes.
func (c shareCount) since(before shareCount) shareCount {
	if c.granted < before.granted {
		return c
	}
	return shareCount{c.granted - before.granted, max(c.entitled-before.entitled, 0)}
}

// countShares returns what the queues have counted of tenants that wait.
func countShares(queues []*queueSnapshot) map[sharer]shareCount {
	counts := make(map[sharer]shareCount)
	for _, q := range queues {
		for _, c := range q.classes {
			for i := range c.flows {
				f := &c.flows[i]
				key := sharer{q.pool, core.TenantID(f.Tenant)}
				count, known := counts[key]
				if !known {
					count = shareCount{granted: f.Granted, entitled: f.Entitled}
				}
				count.entitled += f.Accrued
				counts[key] = count
			}
		}
	}
	return counts
}

// shareLog remembers for a minute what tenants were granted.
type shareLog struct {
	mu      run.Mutex
	tenants map[sharer]*shareHistory
	sampled time.Time
}

// shareHistory is the samples of one tenant.
type shareHistory struct {
	last   shareCount // as it was counted when it was last seen
	seen   time.Time
	points []sharePoint // the oldest first
}

// sharePoint is what a tenant was granted between two samples.
type sharePoint struct {
	from, to time.Time
	shareCount
}

func newShareLog() *shareLog {
	return &shareLog{mu: run.NewMutex("dispatch_shares"), tenants: make(map[sharer]*shareHistory)}
}

// isDue reports whether shares are to be sampled.
func (l *shareLog) isDue(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return now.Sub(l.sampled) >= shareInterval
}

// record adds a sample, unless there is a recent one.
func (l *shareLog) record(now time.Time, counts map[sharer]shareCount) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.sampled) < shareInterval {
		return
	}
	l.sampled = now
	for key, count := range counts {
		h := l.tenants[key]
		switch {
		case h == nil && len(l.tenants) >= maxSharers:
		case h == nil:
			l.tenants[key] = &shareHistory{last: count, seen: now}
		default:
			h.points = append(h.points, sharePoint{h.seen, now, count.since(h.last)})
			h.last, h.seen = count, now
		}
	}
	for key, h := range l.tenants {
		h.points = slices.DeleteFunc(h.points, func(p sharePoint) bool { return now.Sub(p.to) > shareWindow })
		if now.Sub(h.seen) > shareWindow {
			delete(l.tenants, key)
		}
	}
}

// shareOf returns the share of a tenant over the last minute, from the samples and what is counted now.
func (l *shareLog) shareOf(now time.Time, key sharer, count shareCount) Share {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.tenants[key]
	if h == nil || now.Equal(h.seen) && len(h.points) == 0 {
		return newShare(count, 0)
	}
	total, from := count.since(h.last), h.seen
	for i := len(h.points) - 1; i >= 0 && now.Sub(h.points[i].from) <= shareWindow; i-- {
		total.granted += h.points[i].granted
		total.entitled += h.points[i].entitled
		from = h.points[i].from
	}
	return newShare(total, now.Sub(from))
}

// minEntitled is from how many slots on the share of a tenant is compared with its part.
const minEntitled = 10

// recent returns the shares of tenants over the last minute, in all pools, from the samples only.
func (l *shareLog) recent(now time.Time) map[core.TenantID]Share {
	l.mu.Lock()
	defer l.mu.Unlock()
	shares := make(map[core.TenantID]Share)
	for key, h := range l.tenants {
		for i := range h.points {
			p := &h.points[i]
			if now.Sub(p.from) > shareWindow {
				continue
			}
			s, n := shares[key.tenant], newShare(p.shareCount, now.Sub(p.from))
			shares[key.tenant] = Share{Granted: s.Granted + n.Granted, Entitled: s.Entitled + n.Entitled,
				Window: max(s.Window, n.Window)}
		}
	}
	maps.DeleteFunc(shares, func(_ core.TenantID, s Share) bool { return s.Entitled < minEntitled })
	return shares
}

func newShare(c shareCount, window time.Duration) Share {
	return Share{Granted: int(c.granted), Entitled: float64(c.entitled) / fairqueue.ShareScale, Window: window}
}
