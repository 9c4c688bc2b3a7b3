package redisstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
	"github.com/lingua-scheduler/lingua/test/redistest"
)

// TestReadsForPeopleHaveTheirOwnPermits: when reads that people ask for have used all their permits and opened their breaker, every other
// call is answered, and the store counts as available.
func TestReadsForPeopleHaveTheirOwnPermits(t *testing.T) {
	t.Parallel()
	down := make(chan bool, 100)
	s := open(t, redistest.Start(t).URL(), func(o *redisstore.Options) {
		o.OnHealth = func(up bool) { down <- !up }
	})
	people := store.ForPeople(t.Context())
	reads := map[string]func(ctx context.Context) error{
		"audit": func(ctx context.Context) error {
			return errOf(s.ReadLog(ctx, store.AuditLog, store.ReadLogParams{Limit: 9}))
		},
		"events": func(ctx context.Context) error {
			return errOf(s.ReadLog(ctx, store.EventLog, store.ReadLogParams{Limit: 9}))
		},
		"nodes":     func(ctx context.Context) error { return errOf(s.Nodes(ctx)) },
		"jobs":      func(ctx context.Context) error { return errOf(s.List(ctx, store.ListParams{})) },
		"instances": func(ctx context.Context) error { return errOf(s.Instances(ctx, store.InstancesParams{Inboxes: true})) },
		"waiting":   func(ctx context.Context) error { return errOf(s.OpenClasses(ctx, nil, "")) },
	}
	for name, read := range reads {
		if err := read(people); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	free := s.UsePeoplesPermits()
	for range 8 {
		for name, read := range reads {
			ctx, cancel := context.WithTimeout(people, time.Millisecond)
			if err := read(ctx); err == nil {
				t.Errorf("%s was read without a permit", name)
			}
			cancel()
		}
	}
	if err := s.OpenPeoplesBreaker(); !errors.Is(err, store.ErrBreakerOpen) {
		t.Errorf("the breaker of the reads: %v", err)
	}
	for name, read := range reads {
		if err := read(t.Context()); err != nil {
			t.Errorf("%s beside them: %v", name, err)
		}
	}
	if err := s.Ping(t.Context()); err != nil || len(down) > 0 {
		t.Errorf("beside them: %v; the store was reported as unavailable %d times", err, len(down))
	}
	free()
}
