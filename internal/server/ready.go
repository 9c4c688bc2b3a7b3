package server

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// pingEvery is how often the store is asked for /readyz, however many ask here: it needs no credential, and each check
// writes to the store.
const pingEvery = 250 * time.Millisecond

// pingTimeout bounds a check. It belongs to all who wait for it, so it does not end with the request that began it.
const pingTimeout = 2 * time.Second

// ready answers whether new work should come here.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	out := &wire.ReadyResponse{Ready: true}
	switch {
	case s.stopping.Load():
		out.Ready, out.Reason = false, "it is shutting down"
	default:
		if err := s.pings.do(r.Context(), s.Ping); err != nil {
			out.Ready, out.Reason = false, "the shared store does not answer"
			var known store.UnavailableError
			if errors.As(err, &known) {
				out.Reason = string(known)
			}
		} else if s.Partial != nil && s.Partial() {
			out.Ready, out.Reason = false, "it has just started and does not know every node yet"
		}
	}
	status := http.StatusOK
	if !out.Ready {
		status = http.StatusServiceUnavailable
	}
	write(w, status, out)
}

// sharedCheck shares the answer of a check among all who ask within pingEvery.
type sharedCheck struct {
	mu      sync.Mutex
	asked   time.Time // when the last answer was asked for
	answer  error
	running chan struct{} // closed when the check that is under way has ended; nil: none is
}

var errCheckFailed = errors.New("the check did not come to its end")

// do returns the last answer, or makes the check, or waits for whoever is making it.
func (c *sharedCheck) do(ctx context.Context, check func(context.Context) error) error {
	for {
		c.mu.Lock()
		if running := c.running; running != nil {
			c.mu.Unlock()
			select {
			case <-running:
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if !c.asked.IsZero() && time.Since(c.asked) < pingEvery {
			answer := c.answer
			c.mu.Unlock()
			return answer
		}
		c.asked, c.running = time.Now(), make(chan struct{})
		c.mu.Unlock()
		return c.run(ctx, check)
	}
}

// run makes the check and lets the others have its answer, also when it panics.
func (c *sharedCheck) run(ctx context.Context, check func(context.Context) error) (err error) {
	err = errCheckFailed
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.answer = err
		close(c.running)
		c.running = nil
	}()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pingTimeout)
	defer cancel()
	err = check(ctx)
	return err
}
