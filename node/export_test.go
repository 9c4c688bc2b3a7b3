package node

import (
	"cmp"
	"context"
	"net/url"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// Quick is Run at a pace for tests: it comes back at once, and the times that are given are those that hold.
type Quick struct {
	Resend, Keep, Stall, Quit, Pong, Knock time.Duration
	Kept                                   int
}

// Run is Run at that pace.
func (q Quick) Run(ctx context.Context, cfg Config, h Handler) error {
	n, err := q.New(cfg, h)
	if err != nil {
		return err
	}
	return n.Run(ctx)
}

// New is New at that pace.
func (q Quick) New(cfg Config, h Handler) (*Node, error) {
	p := usual
	p.backoff, p.slowest = time.Millisecond, 5*time.Millisecond
	p.kept = cmp.Or(q.Kept, p.kept)
	for at, d := range map[*time.Duration]time.Duration{
		&p.resend: q.Resend, &p.keep: q.Keep, &p.stall: q.Stall, &p.quit: q.Quit, &p.pong: q.Pong, &p.knock: q.Knock,
	} {
		if d > 0 {
			*at = d
		}
	}
	return newNode(cfg, h, p)
}

// Pause is how long is waited after so many failures.
func Pause(failed int) time.Duration { return usual.pause(failed) }

// Near is a time, give or take a fifth.
func Near(d time.Duration) time.Duration { return near(d) }

// SocketURL is where the socket of an address is.
func SocketURL(address string) (string, error) {
	u, err := socketURL(address)
	if err != nil {
		return "", err
	}
	return u.String(), nil
}

// LeavesAfter is how long a node waits when it is asked to go.
func LeavesAfter(ctx context.Context, withinMS int64) time.Duration {
	l := newLink(ctx, nil, 0)
	asked := time.Now()
	l.goAway(&wire.GoAway{ReconnectMS: withinMS})
	<-l.leave
	l.cancel()
	return time.Since(asked)
}

// Rounds is in which round each of so many tries is.
func Rounds(count, tries int) (rounds []int) {
	a := addresses{all: make([]*url.URL, count)}
	for failed := range tries {
		rounds = append(rounds, a.round(failed+1))
	}
	return rounds
}

// AddPackets has so many packets come for a job, and returns what is wrong with its audio then.
func AddPackets(n int) error {
	j := newJob(&wire.JobAssign{Audio: &wire.Audio{AudioFormat: wire.AudioFormat{Encoding: wire.EncodingOpus}}}, time.Now())
	for i := range n {
		j.sound.add(i, []byte{8}, i == n-1)
	}
	return j.sound.err
}
