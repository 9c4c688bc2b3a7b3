// Package storetest is the conformance suite of package store. It is a normal package: the tests of a backend pass it a way to run a
// test with a fresh store, and it tests every promise of the interfaces.
//
// Each subtest is one behaviour, named by a sentence of the specification; the behaviours are grouped by interface, one file for each.
// A backend with a fake clock advances it in Harness.Wait, one with a real clock sleeps. The suite uses durations only as parts of the
// store's own timing.
package storetest

import (
	"testing"
)

// behaviour is a sentence of the specification, and the test that holds it.
type behaviour struct {
	sentence string
	test     func(t *testing.T, h *Harness)
}

// Backend runs a test with a fresh store.
type Backend func(t *testing.T, test func(t *testing.T, h *Harness))

// Exercise runs the whole suite.
func Exercise(t *testing.T, backend Backend) {
	groups := []struct {
		name       string
		behaviours []behaviour
	}{
		{"Nodes", nodeBehaviours},
		{"Identity of nodes", identityBehaviours},
		{"Heartbeat", heartbeatBehaviours},
		{"KeepAlive", keepAliveBehaviours},
		{"Heartbeat without lists", unlistedBehaviours},
		{"Revoked leases", revokedBehaviours},
		{"Connections", connectionBehaviours},
		{"Admission", admissionBehaviours},
		{"Watch", watchBehaviours},
		{"Overdue", overdueBehaviours},
		{"LargeNodes", largeNodeBehaviours},
		{"Marks", markBehaviours},
		{"Ledger", ledgerBehaviours},
		{"Probes", probeBehaviours},
		{"Jobs", jobBehaviours},
		{"Outbox", outboxBehaviours},
		{"Sessions", sessionBehaviours},
		{"Logs", logBehaviours},
		{"Revocations", revocationBehaviours},
		{"Instances", instanceBehaviours},
		{"Inboxes", inboxBehaviours},
		{"Abandoned inboxes and dead letters", deadLetterBehaviours},
		{"Board", boardBehaviours},
		{"Values", valueBehaviours},
		{"Waiting", waitingBehaviours},
		{"Tenants", tenantBehaviours},
		{"Fields", fieldBehaviours},
		{"Crashes", crashBehaviours},
	}
	for _, group := range groups {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			for _, b := range group.behaviours {
				t.Run(b.sentence, func(t *testing.T) {
					t.Parallel()
					backend(t, b.test)
				})
			}
		})
	}
}
