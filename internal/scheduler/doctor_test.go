package scheduler

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/store"
)

// TestDoctorRemembers what the store said while nobody is let through to ask it, and no longer.
func TestDoctorRemembers(t *testing.T) {
	t.Parallel()
	const full, none = store.UnavailableError("the shared store is full"), store.UnavailableError("")
	var next error
	d := doctor{ping: func(context.Context) error { return next }}
	for i, step := range []struct {
		err  error
		want store.UnavailableError
	}{
		{store.ErrBreakerOpen, none},
		{full, full},
		{store.ErrBreakerOpen, full},
		{errors.New("no answer in time"), none},
		{store.ErrBreakerOpen, none},
		{full, full},
		{nil, none},
		{store.ErrBreakerOpen, none},
	} {
		if next = step.err; next != nil {
			next = fmt.Errorf("%w: %w", store.ErrDown, next)
		}
		got := d.see(t.Context())
		var trouble store.UnavailableError
		if errors.As(got, &trouble); trouble != step.want || (got == nil) != (step.err == nil) {
			t.Errorf("step %d, %v: %v, want %q", i+1, step.err, got, step.want)
		}
	}
}
