package redisstore_test

import (
	"context"
	"fmt"
	"time"

	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
)

func appends(index int64) func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
	return func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		a, err := s.Append(ctx, store.AppendParams{
			Session: x.session(), Index: index, Body: fmt.Appendf(nil, "body %d", index), Keep: time.Minute,
		})
		a.Exists = false // whose own message is there is told so, and reads it
		return fmt.Sprint(a), err
	}
}

func locks(holder string) func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
	return func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		l, err := s.Lock(ctx, store.LockParams{Name: x.name, Holder: holder, TTL: time.Minute})
		return fmt.Sprint(l.Held), err
	}
}

var boardLosses = []loss{
	{name: "append", loses: "append", prepare: then(nothing, appends(0)), call: appends(1)},
	{name: "append early", loses: "append", prepare: nothing, call: appends(1)},
	{name: "append between", loses: "append", prepare: then(nothing, appends(1)), call: appends(0)},
	{name: "lock", loses: "lock", prepare: nothing, call: locks("me")},
	{name: "unlock", loses: "unlock", prepare: then(nothing, locks("me")), call: func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		return "", s.Unlock(ctx, store.LockParams{Name: x.name, Holder: "me"})
	}},
	{name: "snapshot", loses: "SET", prepare: nothing, call: func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		return "", s.SaveSnapshot(ctx, store.SnapshotParams{Name: x.name, Body: []byte("body"), TTL: time.Minute})
	}},
	// These two count calls, and that is their whole effect. Who repeats one is refused sooner, never later.
	{name: "allow", loses: "allow", prepare: nothing, counts: true, call: func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		ok, err := s.Allow(ctx, store.AllowParams{Key: x.name, Limit: 1, Window: time.Minute})
		return fmt.Sprint(ok), err
	}},
	{name: "debounce", loses: "SET", prepare: nothing, counts: true, call: func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		first, err := s.Debounce(ctx, x.name, time.Minute)
		return fmt.Sprint(first), err
	}},
}
