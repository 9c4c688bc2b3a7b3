package store

import "context"

type forPeople struct{}

// ForPeople returns a context for reads that people ask for: lists, logs, figures. A shared store serves them over connections of their
// own, with permits and a breaker of their own, so that they can neither use those of dispatch nor open its breaker.
func ForPeople(ctx context.Context) context.Context { return context.WithValue(ctx, forPeople{}, true) }

// IsForPeople reports whether a context is one of ForPeople, or is derived from one.
func IsForPeople(ctx context.Context) bool { return ctx.Value(forPeople{}) != nil }
