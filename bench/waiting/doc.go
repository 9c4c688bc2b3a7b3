// Package waiting measures requests that wait for a slot over several instances, each a process of its own, with one Redis: how fair
// tenants share slots, what waiting spares in refusals, and what it costs.
//
//	make bench-waiting
//
// Without -waiting-for the tests run for a moment, and only check that the figures are plausible.
package waiting
