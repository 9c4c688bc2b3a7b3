package scheduler

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/redis/rueidis"
	"github.com/sony/gobreaker/v2"

	"github.com/lingua-scheduler/lingua/internal/redistest"
	"github.com/lingua-scheduler/lingua/internal/server"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// TestDoctorRemembers what Redis said while nobody is let through to ask it, and no longer.
func TestDoctorRemembers(t *testing.T) {
	t.Parallel()
	redis, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{redistest.Start(t).Addr()}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		t.Fatal(err)
	}
	defer redis.Close()
	says := func(text string) error {
		return redis.Do(t.Context(), redis.B().Eval().Script("return redis.error_reply(ARGV[1])").Numkeys(0).Arg(text).Build()).Error()
	}
	const full, none = server.Trouble("the shared store is full and takes no writes"), server.Trouble("")
	var next error
	d := doctor{ping: func(context.Context) error { return next }}
	for i, step := range []struct {
		err  error
		want server.Trouble
	}{
		{gobreaker.ErrOpenState, none},
		{says("OOM command not allowed when used memory > 'maxmemory'."), full},
		{gobreaker.ErrOpenState, full},
		{gobreaker.ErrTooManyRequests, full},
		{errors.New("no answer in time"), none},
		{gobreaker.ErrOpenState, none},
		{says("OOM again"), full},
		{nil, none},
		{gobreaker.ErrOpenState, none},
		{says("ERR something else"), none},
	} {
		if next = step.err; next != nil {
			next = fmt.Errorf("%w: %w", store.ErrDown, next)
		}
		got := d.see(t.Context())
		var trouble server.Trouble
		if errors.As(got, &trouble); trouble != step.want || (got == nil) != (step.err == nil) {
			t.Errorf("step %d, %v: %v, want %q", i+1, step.err, got, step.want)
		}
	}
}
