package node

import (
	"context"
	"math/rand/v2"
	"time"
)

// pace is how long things take, how often they are tried, and how much is kept meanwhile.
type pace struct {
	backoff  time.Duration // before the first reconnect, at most; doubled for each further one
	slowest  time.Duration // the longest it becomes
	settled  time.Duration // a connection that held this long was a good one: the backoff starts anew
	register time.Duration // to connect and be registered
	knock    time.Duration // to connect, when there are other addresses
	write    time.Duration // one message
	pong     time.Duration // after a ping
	beat     time.Duration // between heartbeats when the scheduler names no time
	haste    time.Duration // between heartbeats at least, however much changes
	resend   time.Duration // without an acknowledgement
	keep     time.Duration // a result that nobody acknowledges, after its deadline
	stall    time.Duration // without a further piece of audio
	quit     time.Duration // for handlers, and the scheduler, once the node must go
	kept     int           // bytes of outcomes that wait for their acknowledgement, before no further job is taken
}

var usual = pace{
	backoff: 200 * time.Millisecond, slowest: 5 * time.Second, settled: 5 * time.Second,
	register: 10 * time.Second, knock: 3 * time.Second, write: 10 * time.Second, pong: 10 * time.Second,
	beat: 5 * time.Second, haste: 100 * time.Millisecond, resend: 3 * time.Second, keep: time.Minute, stall: 5 * time.Second, quit: 5 * time.Second,
	kept: mostKept,
}

// pause is how long to wait before a try, after so many that failed: any time up to a bound that doubles, so that those
// who lost the scheduler together do not come back together.
func (p *pace) pause(failed int) time.Duration {
	bound := p.slowest
	if failed < 16 {
		bound = min(bound, p.backoff<<max(failed-1, 0))
	}
	return rand.N(bound + 1)
}

// near is d, give or take a fifth.
func near(d time.Duration) time.Duration {
	return d - d/5 + rand.N(2*d/5+1)
}

// signal leaves a token, unless there is one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// wait reports false when the context ended first.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
