// Package store is the seam between the scheduler and its shared truth: small interfaces, their parameter
// structs, and the promises every implementation keeps. memstore keeps it in the process; redisstore shares
// it between many. storetest holds the suite both must pass.
//
// Three rules hold for every method:
//
//   - It may be repeated. A caller that lost a reply calls again and there is no second effect.
//   - It is never late. A write whose context has a deadline takes effect before that deadline or not at
//     all, also when it waited in some queue on the way.
//   - Expiry is judged by the store's clock. Callers pass durations, never moments of their own clock.
//
// A returned error means that the outcome is unknown or that the store is away (ErrDown); every other answer
// is a verdict.
package store
