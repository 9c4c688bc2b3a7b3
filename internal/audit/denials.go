package audit

import (
	"net/netip"
	"sync"
	"time"
)

// How many denials of one address are recorded: some at once, and then so many a second. Every denial is counted by a metric; the
// log is for what is worth reading, and an attacker must not be able to fill it.
const (
	denialBurst = 20
	denialRate  = 5
	// maxAddresses bounds how many addresses are told apart. All others share one limit.
	maxAddresses = 4096
	// maxSweepRate is how often the table is swept while it is full.
	maxSweepRate = time.Second
)

// denialLimiter limits the recorded denials of each address.
type denialLimiter struct {
	mu     sync.Mutex
	byAddr map[netip.Addr]*denialBudget
	others denialBudget // of addresses for which there is no room, and of callers without one
	swept  time.Time
}

// denialBudget is how many denials of an address may be recorded now (a token bucket), and how many were not.
type denialBudget struct {
	left       float64
	at         time.Time // of the last denial
	suppressed int
}

// suppressedDenials is how many denials of an address were not recorded. The address is invalid for those that share a limit.
type suppressedDenials struct {
	address netip.Addr
	count   int
}

func newDenialLimiter() *denialLimiter {
	return &denialLimiter{byAddr: make(map[netip.Addr]*denialBudget), others: denialBudget{left: denialBurst}}
}

// allow reports whether a denial may be recorded, and how many of the same address were suppressed before it. idle are addresses that
// are not followed any more.
func (l *denialLimiter) allow(address string, now time.Time) (suppressed int, idle []suppressedDenials, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, idle := l.budgetOf(address, now)
	b.left = min(denialBurst, b.left+now.Sub(b.at).Seconds()*denialRate)
	b.at = now
	if b.left < 1 {
		b.suppressed++
		return 0, idle, false
	}
	b.left--
	suppressed, b.suppressed = b.suppressed, 0
	return suppressed, idle, true
}

// budgetOf returns the budget of an address. One customer has a whole /64 of IPv6.
func (l *denialLimiter) budgetOf(address string, now time.Time) (b *denialBudget, idle []suppressedDenials) {
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return &l.others, nil
	}
	if addr.Is6() {
		prefix, _ := addr.Prefix(64) // an IPv6 address has one
		addr = prefix.Addr()
	}
	if known := l.byAddr[addr]; known != nil {
		return known, nil
	}
	if len(l.byAddr) >= maxAddresses && now.Sub(l.swept) >= maxSweepRate {
		idle = l.sweepLocked(now)
	}
	if len(l.byAddr) >= maxAddresses {
		return &l.others, idle
	}
	b = &denialBudget{left: denialBurst, at: now}
	l.byAddr[addr] = b
	return b, idle
}

// sweep drops the addresses that have stopped, and returns those of which denials were suppressed.
func (l *denialLimiter) sweep(now time.Time) []suppressedDenials {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sweepLocked(now)
}

func (l *denialLimiter) sweepLocked(now time.Time) (idle []suppressedDenials) {
	l.swept = now
	const refilled = denialBurst * time.Second / denialRate // after which a dropped budget equals a new one
	for addr, b := range l.byAddr {
		if now.Sub(b.at) >= refilled {
			idle = appendSuppressed(idle, addr, b)
			delete(l.byAddr, addr)
		}
	}
	if now.Sub(l.others.at) >= refilled {
		idle = appendSuppressed(idle, netip.Addr{}, &l.others)
	}
	return idle
}

// takeAll returns every address of which denials were suppressed.
func (l *denialLimiter) takeAll() (all []suppressedDenials) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for addr, b := range l.byAddr {
		all = appendSuppressed(all, addr, b)
	}
	return appendSuppressed(all, netip.Addr{}, &l.others)
}

// appendSuppressed moves what a budget has suppressed to a list.
func appendSuppressed(list []suppressedDenials, addr netip.Addr, b *denialBudget) []suppressedDenials {
	if b.suppressed > 0 {
		list = append(list, suppressedDenials{address: addr, count: b.suppressed})
		b.suppressed = 0
	}
	return list
}
