package scheduler

import (
	"context"
	"errors"
	"sync"

	"github.com/lingua-scheduler/lingua/internal/store"
)

// doctor asks the store whether it serves, and knows what is wrong with one that does not.
type doctor struct {
	ping func(context.Context) error

	mu   sync.Mutex
	last store.UnavailableError // what the store itself said; empty when it said nothing
}

// see asks. An error that is a store.Trouble is fit for anybody's ears.
func (d *doctor) see(ctx context.Context) error {
	err := d.ping(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	// Between two tries nobody is asked: what was wrong still is.
	if !errors.Is(err, store.ErrBreakerOpen) {
		d.last = ""
		errors.As(err, &d.last)
	}
	if err != nil && d.last != "" {
		return d.last
	}
	return err
}
