package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// mostAlike is how many warnings of one kind are logged in a second. When the store is away every caller's failure is one, and
// the thousandth says no more than the first.
const mostAlike = 20

// calm is a handler that leaves out warnings and errors of which there are too many alike. The next that is logged says how
// many were left out before it.
type calm struct {
	slog.Handler
	seen *alike // shared by all handlers that were made from the first
}

func calmed(h slog.Handler) slog.Handler {
	return &calm{h, &alike{counts: make(map[string]*count)}}
}

// Handle implements slog.Handler.
func (c *calm) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn {
		return c.Handler.Handle(ctx, r)
	}
	omitted, ok := c.seen.take(r.Message, r.Time)
	if !ok {
		return nil
	}
	if omitted > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("omitted", omitted))
	}
	return c.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (c *calm) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &calm{c.Handler.WithAttrs(attrs), c.seen}
}

// WithGroup implements slog.Handler.
func (c *calm) WithGroup(name string) slog.Handler { return &calm{c.Handler.WithGroup(name), c.seen} }

// alike counts messages by their text, which is the same for all of a kind: what differs is in the attributes.
type alike struct {
	mu     sync.Mutex
	counts map[string]*count
}

// count is how often a message came in the second that began then.
type count struct {
	second  time.Time
	n       int
	omitted int
}

// mostKinds bounds how many texts are counted: one that is made at run time is not of a kind.
const mostKinds = 1000

// take reports whether a message is to be logged, and how many like it were not.
func (a *alike) take(text string, now time.Time) (omitted int, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.counts[text]
	if c == nil {
		if len(a.counts) == mostKinds {
			clear(a.counts)
		}
		c = &count{second: now}
		a.counts[text] = c
	}
	if now.Sub(c.second) >= time.Second {
		c.second, c.n = now, 0
	}
	if c.n++; c.n > mostAlike {
		c.omitted++
		return 0, false
	}
	omitted, c.omitted = c.omitted, 0
	return omitted, true
}
