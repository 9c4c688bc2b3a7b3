package scheduler

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/store"
)

// TestStoreHealthRemembersReason: the last reason of the store holds while the store is not asked, and no longer.
func TestStoreHealthRemembersReason(t *testing.T) {
	t.Parallel()
	const full, none = store.UnavailableError("the shared store is full"), store.UnavailableError("")
	var next error
	h := storeHealth{ping: func(context.Context) error { return next }}
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
		got := h.Check(t.Context())
		var reason store.UnavailableError
		if errors.As(got, &reason); reason != step.want || (got == nil) != (step.err == nil) {
			t.Errorf("step %d, %v: %v, want %q", i+1, step.err, got, step.want)
		}
	}
}
