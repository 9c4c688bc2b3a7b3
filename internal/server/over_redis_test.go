package server_test

import (
	"flag"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/test/redistest"
)

// overRedis are the tests that run over Redis too: those of which the answers depend on what the store keeps, on its order and on its
// clock, at least one for each part of the store. The tests of the store itself are in storetest, and those of several instances in
// scheduler.
var overRedis = []string{
	// Nodes: registration, epochs, heartbeats, presence, slots, pages.
	"TestRegisterAnswers", "TestHeartbeatUpdatesDeclaration", "TestOvertakenHeartbeatIsIgnored", "TestHeartbeatOfEarlierEpoch",
	"TestReregisterKeepsListedJobs", "TestReregisterMovesUnlistedJobs", "TestReregisterCancelsJobsOfOthers",
	"TestJobOmittedTwiceIsMoved", "TestOfflineNodeLosesJobs", "TestSilentNodeLosesJobs", "TestDrainAndResume", "TestLoweredMaximum",
	"TestExplainStaleHeartbeat", "TestAdmissionIsShown", "TestNodePages", "TestNodeView", "TestNodeSlotCounts", "TestNodeTable",
	"TestDirectionCounts", "TestNodeProbe", "TestMaxNodesOfAKey", "TestNodeLeaves", "TestDrainedNodeLeaves", "TestRemoveNode",
	"TestRemovedNodeIsReadmitted", "TestReadmittedNodeKeepsDeclaration", "TestDisconnectedNodeKeepsItsJobs",
	"TestPresentNameNeedsItsSecret",
	// Jobs: states, attempts, idempotency, fencing, pages, searches.
	"TestJobLifecycle", "TestResultBeforeAck", "TestFailedAttemptIsRetriedOnAnotherNode", "TestAllAttemptsFail", "TestAllNodesFull",
	"TestAllNodesRefuse", "TestStrictJobIsNotMoved", "TestBusyNodeCostsNoAttempt", "TestRetryAfterAckTimeout",
	"TestCancelKeepsSlotUntilNodeStops", "TestLateResultOfCancelledJob", "TestCancelOfEndedJob", "TestCancelOfWaitingJob",
	"TestConcurrentDuplicateRequests", "TestRepeatedRequestReturnsSameJob", "TestRepeatedRequestAfterRetry",
	"TestRequestIDWithOtherContent", "TestRepeatedReportsAreIdempotent", "TestRepeatedFailCountsOnce",
	"TestReportsOfOtherNodesAreFenced", "TestJobPages", "TestJobListFilters", "TestJobSearch", "TestCancelMany", "TestBulkIsBounded",
	"TestBulkTwiceAtOnce",
	// Marks of services, pools, tenants, waiting.
	"TestMarkedServiceGatesJobs", "TestMarkEndsWithAFreshReport", "TestExplainShowsMarks", "TestModelNotAvailableMovesJob",
	"TestPoolsAreShown", "TestPoolsOfReload", "TestTenantLimitRefusesADispatch", "TestTenantsAreListed", "TestDispatchWaits",
	"TestWaitEndsWithTheConnection", "TestWaitIsOver", "TestWaitingIsShown",
	// Sessions, revocations and logins.
	"TestUtteranceRoundTrip", "TestEndSession", "TestSessionsAreListedByTenant", "TestRevokeKey", "TestRevokeTenant", "TestRevokeNode",
	"TestRevocationRequests", "TestRevokeWhileConnecting", "TestLogoutEndsTheLogin",
	// Logs, dead letters, statistics.
	"TestEvents", "TestEventsNewestFirst", "TestEventStream", "TestPositionsDoNotTellOfOtherTenants", "TestChangesAreAudited",
	"TestAuditQueries", "TestDeadLetters", "TestReplayFailureHasReason", "TestStats", "TestSeriesOverHTTP",
}

// TestOverRedis runs the tests of overRedis again with schedulers on Redis: the store must make no difference to the API. All tests of
// this package over a Redis:
//
//	go test ./internal/server -redis redis://127.0.0.1:6379
func TestOverRedis(t *testing.T) {
	t.Parallel()
	if *redisURL != "" {
		return // the run over Redis itself
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-redis", redistest.Start(t).URL(), "-test.v",
		"-test.run", "^("+strings.Join(overRedis, "|")+")$", "-test.shuffle", "on",
		"-test.parallel", flag.Lookup("test.parallel").Value.String(), "-test.timeout", "10m")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range overRedis {
		if !strings.Contains(string(out), "\n--- PASS: "+name+" ") {
			t.Errorf("%s is not the name of a test, or was not run", name)
		}
	}
}
