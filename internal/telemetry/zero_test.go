package telemetry

import "testing"

// TestKnownSeriesStartAtZero checks that a new instance has the series that dashboards and alerts take rates of.
func TestKnownSeriesStartAtZero(t *testing.T) {
	t.Parallel()
	_, series := gather(t, New().Registry)
	for _, name := range []string{
		"node_registration_total{status=again}", "node_selection_total{result=NO_CAPABLE_NODE}", "node_selection_total{result=OK}",
		"lingua_refusals_total{reason=ALL_CANDIDATES_FULL_OR_FAILED}", "lingua_refusals_total{reason=NO_CAPABLE_NODE}",
		"lingua_deliveries_total{result=busy}", "lingua_deliveries_total{result=delivered}", "lingua_retries_total{reason=ACK_TIMEOUT}",
		"lingua_node_admissions_total{decision=ejected,reason=failing}", "lingua_reconciled_leases_total{kind=orphan}",
		"lingua_session_events_total{event=revived}", "lingua_session_messages_total{kind=partial}", "lingua_takeovers_total{kind=instance}",
		"lingua_store_lost_total{kind=record}",
	} {
		if value, there := series[name]; !there || value != 0 {
			t.Errorf("%s is %v, there: %v", name, value, there)
		}
	}
}
