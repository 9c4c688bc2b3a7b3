package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// startAtZero makes the series whose labels are known and few. Without them the first event would make a series that begins at one, in
// which increase() and rate() see nothing, and a panel of Grafana would be empty until then.
func (m *Metrics) startAtZero() {
	zero(m.NodeRegistration, RegistrationNew, RegistrationAgain, RegistrationRefused, RegistrationRevoked, RegistrationError,
		RegistrationInvalid, RegistrationDenied, RegistrationLimited)
	zero(m.NodeSelection, string(wire.NoCapableNode), string(wire.AllCandidatesFullOrFailed))
	zero(m.Refusals, string(wire.NoCapableNode), string(wire.AllCandidatesFullOrFailed), string(wire.SchedulerDependencyDown),
		string(wire.CannotBeMet), string(wire.QueueFull))
	zero(m.Deliveries, DeliveryBusy, DeliveryRefused, DeliveryUnknown)
	for _, reason := range []core.Reason{
		core.ReasonACKTimeout, core.ReasonAttemptTimeout, core.ReasonDeliveryRefused, core.ReasonDeliveryUnknown,
		core.ReasonNodeBusy, core.ReasonDisconnected, core.ReasonNodeFailed, core.ReasonNodeLost, core.ReasonModelNotAvailable,
	} {
		m.Retries.WithLabelValues(string(reason))
	}
	for _, reason := range core.AdmissionReasons() {
		m.Admissions.WithLabelValues(AdmissionEjected, string(reason))
		m.Admissions.WithLabelValues(AdmissionReadmitted, string(reason))
	}
	for _, cause := range []string{WithheldLast, WithheldHalf} {
		m.Admissions.WithLabelValues(AdmissionWithheld, cause)
	}
	zero(m.Orphans, LeaseOrphan, LeaseOverdue, LeaseStray, LeaseRebound, LeaseTakeover)
	zero(m.Events, SessionStarted, SessionResumed, SessionRevived, SessionSuperseded, SessionEnded, SessionAbandoned, SessionTerminated)
	zero(m.Messages, MessagePartial, MessageWaiting, MessageSpeech)
	for _, kind := range []string{TakeoverInstance, TakeoverNode, TakeoverJob} {
		m.Takeovers.WithLabelValues(kind)
	}
	zero(m.StoreLost, LostRecord, LostLease)
}

// zero makes the series of a counter with one label.
func zero(c *prometheus.CounterVec, values ...string) {
	for _, v := range values {
		c.WithLabelValues(v)
	}
}
