package journal

import (
	"net/netip"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// How many denials of one address, and how many failures of one key, are recorded: some at once, and then so many a second. Every
// denial is counted by a metric; the log is for what is worth reading, and an attacker must not be able to fill it.
const (
	denialBurst = 20
	denialRate  = 5
	// All sources together have a limit, too: an attacker may have many addresses.
	totalBurst = 400
	totalRate  = 20
	// maxSources bounds how many sources are told apart. All others share one limit.
	maxSources = 4096
	// maxSweepRate is how often the table is swept while it is full.
	maxSweepRate = time.Second
)

// denialSource is where denials or failures come from: denials from an address, failures from a key. The zero value stands for all that
// share a limit.
type denialSource struct {
	address netip.Addr
	key     string
}

// sourceOf is the source of an entry.
func sourceOf(e *store.AuditEntry) denialSource {
	if e.Outcome == store.AuditFailed {
		return denialSource{key: e.Key}
	}
	addr, err := netip.ParseAddr(e.Address)
	if err != nil {
		return denialSource{}
	}
	return denialSource{address: socket.CountedAddr(addr)}
}

// denialLimiter limits the recorded denials and failures of each source.
type denialLimiter struct {
	mu       sync.Mutex
	bySource map[denialSource]*denialBudget
	others   denialBudget // of sources for which there is no room, and of callers without one
	total    denialBudget // of all sources together
	swept    time.Time
}

// denialBudget is how many denials of a source may be recorded now (a token bucket), and how many were not.
type denialBudget struct {
	left       float64
	at         time.Time // of the last denial
	suppressed int
}

// suppressedDenials is how many denials of a source were not recorded.
type suppressedDenials struct {
	denialSource
	count int
}

func newDenialLimiter() *denialLimiter {
	return &denialLimiter{bySource: make(map[denialSource]*denialBudget), others: denialBudget{left: denialBurst},
		total: denialBudget{left: totalBurst}}
}

// allow reports whether a denial may be recorded, and how many of the same source were suppressed before it. idle are sources that are
// not followed any more.
func (l *denialLimiter) allow(source denialSource, now time.Time) (suppressed int, idle []suppressedDenials, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, idle := l.budgetOf(source, now)
	b.refill(denialBurst, denialRate, now)
	l.total.refill(totalBurst, totalRate, now)
	if b.left < 1 || l.total.left < 1 {
		b.suppressed++
		return 0, idle, false
	}
	b.left--
	l.total.left--
	suppressed, b.suppressed = b.suppressed, 0
	return suppressed, idle, true
}

// refill adds what the time since the last denial allows.
func (b *denialBudget) refill(burst, rate float64, now time.Time) {
	b.left = min(burst, b.left+now.Sub(b.at).Seconds()*rate)
	b.at = now
}

// budgetOf returns the budget of a source.
func (l *denialLimiter) budgetOf(source denialSource, now time.Time) (b *denialBudget, idle []suppressedDenials) {
	if source == (denialSource{}) {
		return &l.others, nil
	}
	if known := l.bySource[source]; known != nil {
		return known, nil
	}
	if len(l.bySource) >= maxSources && now.Sub(l.swept) >= maxSweepRate {
		idle = l.sweepLocked(now)
	}
	if len(l.bySource) >= maxSources {
		return &l.others, idle
	}
	b = &denialBudget{left: denialBurst, at: now}
	l.bySource[source] = b
	return b, idle
}

// sweep drops the sources that have stopped, and returns those of which denials were suppressed.
func (l *denialLimiter) sweep(now time.Time) []suppressedDenials {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sweepLocked(now)
}

func (l *denialLimiter) sweepLocked(now time.Time) (idle []suppressedDenials) {
	l.swept = now
	const refilled = denialBurst * time.Second / denialRate // after which a dropped budget equals a new one
	for source, b := range l.bySource {
		if now.Sub(b.at) >= refilled {
			idle = appendSuppressed(idle, source, b)
			delete(l.bySource, source)
		}
	}
	if now.Sub(l.others.at) >= refilled {
		idle = appendSuppressed(idle, denialSource{}, &l.others)
	}
	return idle
}

// takeAll returns every source of which denials were suppressed.
func (l *denialLimiter) takeAll() (all []suppressedDenials) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for source, b := range l.bySource {
		all = appendSuppressed(all, source, b)
	}
	return appendSuppressed(all, denialSource{}, &l.others)
}

// appendSuppressed moves what a budget has suppressed to a list.
func appendSuppressed(list []suppressedDenials, source denialSource, b *denialBudget) []suppressedDenials {
	if b.suppressed > 0 {
		list = append(list, suppressedDenials{denialSource: source, count: b.suppressed})
		b.suppressed = 0
	}
	return list
}
