package node

import (
	"cmp"
	"context"
	"net/url"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// FastTiming creates nodes with a short backoff. Its fields replace the default timing where they are set.
type FastTiming struct {
	ResendAfter, KeepOutcome, AudioTimeout, StopTimeout, PongTimeout, DialTimeout time.Duration
	MaxUnacked                                                                    int
}

// Run is node.Run with this timing.
func (f FastTiming) Run(ctx context.Context, cfg Config, h Handler) error {
	n, err := f.New(cfg, h)
	if err != nil {
		return err
	}
	return n.Run(ctx)
}

// New is node.New with this timing.
func (f FastTiming) New(cfg Config, h Handler) (*Node, error) {
	t := defaultTiming
	t.firstBackoff, t.maxBackoff = time.Millisecond, 5*time.Millisecond
	t.maxUnacked = cmp.Or(f.MaxUnacked, t.maxUnacked)
	for field, d := range map[*time.Duration]time.Duration{
		&t.resendAfter: f.ResendAfter, &t.keepOutcome: f.KeepOutcome, &t.audioTimeout: f.AudioTimeout, &t.stopTimeout: f.StopTimeout,
		&t.pongTimeout: f.PongTimeout, &t.dialTimeout: f.DialTimeout,
	} {
		if d > 0 {
			*field = d
		}
	}
	return newNode(cfg, h, t)
}

// MoveDelay returns how long a connection waits after a GoAway before it moves.
func MoveDelay(ctx context.Context, withinMS int64) time.Duration {
	c := newConnection(ctx, nil, &url.URL{}, 0)
	asked := time.Now()
	c.goAway(&wire.GoAway{ReconnectMS: withinMS})
	<-c.moveDue
	c.cancel()
	return time.Since(asked)
}

// AwaitSilence returns after what time a connection ends on which something arrives at these times, and why.
func AwaitSilence(ctx context.Context, keepalive time.Duration, arrivals ...time.Duration) (time.Duration, error) {
	c := newConnection(ctx, nil, &url.URL{}, 0)
	for _, after := range arrivals {
		time.AfterFunc(after, func() { c.received.Store(true) })
	}
	c.awaitSilence(ctx, keepalive)
	return c.age(), c.err
}

// AddPackets adds n packets to the audio of a job and returns the error of the audio.
func AddPackets(n int) error {
	j := newJob(&wire.JobAssign{Audio: &wire.Audio{AudioFormat: wire.AudioFormat{Encoding: wire.EncodingOpus}}}, time.Now())
	for i := range n {
		j.audio.add(i, []byte{8}, i == n-1)
	}
	return j.audio.err
}
