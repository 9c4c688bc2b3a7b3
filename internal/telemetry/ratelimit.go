package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// maxPerSecond is how many warnings and errors with the same message are logged in a second. While the store is
// unavailable every request logs one.
const maxPerSecond = 20

// rateLimitedHandler drops warnings and errors above maxPerSecond for each message. The next one that is logged has the
// number of those that were dropped before it.
type rateLimitedHandler struct {
	slog.Handler
	limiter *messageLimiter // shared by all handlers derived from the first
}

func newRateLimitedHandler(h slog.Handler) slog.Handler {
	return &rateLimitedHandler{h, newMessageLimiter()}
}

// Handle implements slog.Handler.
func (h *rateLimitedHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn {
		return h.Handler.Handle(ctx, r)
	}
	omitted, ok := h.limiter.allow(r.Message, r.Time)
	if !ok {
		return nil
	}
	if omitted > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("omitted", omitted))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *rateLimitedHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &rateLimitedHandler{h.Handler.WithAttrs(attrs), h.limiter}
}

// WithGroup implements slog.Handler.
func (h *rateLimitedHandler) WithGroup(name string) slog.Handler {
	return &rateLimitedHandler{h.Handler.WithGroup(name), h.limiter}
}

// messageLimiter limits log records by their message. Messages are constants; variable parts are in attributes.
type messageLimiter struct {
	mu     sync.Mutex
	counts map[string]*messageCount
}

// messageCount counts one message in the current second.
type messageCount struct {
	second  time.Time // its start
	logged  int       // records in this second
	omitted int       // records dropped since the last that was logged
}

// maxMessages bounds how many messages are counted, in case one is made at run time.
const maxMessages = 1000

func newMessageLimiter() *messageLimiter {
	return &messageLimiter{counts: make(map[string]*messageCount)}
}

// allow reports whether a record may be logged, and how many with the same message were dropped before it.
func (l *messageLimiter) allow(message string, now time.Time) (omitted int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.counts[message]
	if c == nil {
		if len(l.counts) == maxMessages {
			clear(l.counts)
		}
		c = &messageCount{second: now}
		l.counts[message] = c
	}
	if now.Sub(c.second) >= time.Second {
		c.second, c.logged = now, 0
	}
	if c.logged++; c.logged > maxPerSecond {
		c.omitted++
		return 0, false
	}
	omitted, c.omitted = c.omitted, 0
	return omitted, true
}
