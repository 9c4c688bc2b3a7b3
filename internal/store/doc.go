// Package store is the interface between the scheduler and its shared state: small interfaces, their parameter structs, and the
// promises that every implementation keeps. memstore keeps the state in the process, redisstore shares it between instances.
// storetest is the conformance suite that both pass; the comments of the interfaces and that suite are the specification of a
// new backend.
//
// Three rules hold for every method:
//
//   - It is idempotent. A caller that lost a reply repeats the call, and there is no second effect. The exceptions, Allow
//     and Post, say so.
//   - It is never late. A write whose context has a deadline takes effect before that deadline or not at all, also when it
//     waited in a queue on the way.
//   - Expiry is judged by the store's clock. Callers pass durations, never times of their own clock.
//
// A returned error means that the outcome is unknown or that the store is unavailable (ErrDown), except for ErrNoNode and
// ErrNoJob. Every refusal that a caller has to expect is a value of the answer: a Verdict, an Outcome, a PostResult or a flag.
package store
