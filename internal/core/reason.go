package core

import (
	"cmp"
	"strings"
)

// Reason is why a candidate was rejected, why a request was refused, or why a job or an attempt ended. The names are
// stable: they are in responses, in metrics and in logs.
type Reason string

// ReasonNone means that there is none.
const ReasonNone Reason = ""

// Reasons to reject a candidate. Those of the first group hold as long as the node is registered as it is; those of the
// second hold now.
const (
	ReasonSemanticLang   Reason = "SEMANTIC_LANG_UNSUPPORTED"
	ReasonASRLang        Reason = "ASR_LANG_UNSUPPORTED"
	ReasonNMTPair        Reason = "NMT_PAIR_UNSUPPORTED"
	ReasonTTSLang        Reason = "TTS_LANG_UNSUPPORTED"
	ReasonModelMissing   Reason = "MODEL_MISSING"
	ReasonServiceMissing Reason = "SERVICE_MISSING"
	ReasonFeatureMissing Reason = "FEATURE_MISSING"
	ReasonTenant         Reason = "OTHER_TENANT"
	ReasonRegion         Reason = "OTHER_REGION"
	ReasonPool           Reason = "OTHER_POOL"

	ReasonNotReady         Reason = "HEALTH_NOT_READY"
	ReasonDrained          Reason = "DRAINED"
	ReasonDisconnected     Reason = "DISCONNECTED"
	ReasonHeld             Reason = "HELD"
	ReasonEjected          Reason = "EJECTED"
	ReasonStale            Reason = "HEARTBEAT_STALE"
	ReasonUnreachable      Reason = "NO_CALLBACK_URL"
	ReasonServiceNotReady  Reason = "SERVICE_NOT_READY"
	ReasonMarked           Reason = "SERVICE_MARKED_UNAVAILABLE"
	ReasonASRNotReady      Reason = "ASR_SERVICE_NOT_READY"
	ReasonSemanticNotReady Reason = "SEMANTIC_SERVICE_NOT_READY"
	ReasonNMTNotReady      Reason = "NMT_SERVICE_NOT_READY"
	ReasonTTSNotReady      Reason = "TTS_SERVICE_NOT_READY"
	ReasonCPU              Reason = "CPU_OVER_LIMIT"
	ReasonGPU              Reason = "GPU_OVER_LIMIT"
	ReasonMemory           Reason = "MEMORY_OVER_LIMIT"
	ReasonTried            Reason = "ALREADY_TRIED"
	ReasonFull             Reason = "FULL"
	ReasonNoCapacity       Reason = "NO_CAPACITY"
	ReasonSpread           Reason = "SPREAD"
	ReasonSetAside         Reason = "SET_ASIDE"
	ReasonPreferredRegion  Reason = "NOT_PREFERRED_REGION"
	ReasonChanged          Reason = "NODE_CHANGED"
)

// Reasons of refused requests, and of the end of jobs and attempts.
const (
	ReasonAllFull           Reason = "ALL_CANDIDATES_FULL_OR_FAILED"
	ReasonDependencyDown    Reason = "SCHEDULER_DEPENDENCY_DOWN"
	ReasonMaxRetry          Reason = "MAX_RETRY_EXCEEDED"
	ReasonDeadline          Reason = "DEADLINE_EXCEEDED"
	ReasonNodeLost          Reason = "NODE_LOST"
	ReasonACKTimeout        Reason = "ACK_TIMEOUT"
	ReasonAttemptTimeout    Reason = "ATTEMPT_TIMEOUT"
	ReasonDeliveryRefused   Reason = "DELIVERY_REFUSED"
	ReasonDeliveryUnknown   Reason = "DELIVERY_UNKNOWN"
	ReasonNodeBusy          Reason = "NODE_BUSY"
	ReasonNodeFailed        Reason = "NODE_FAILED"
	ReasonModelNotAvailable Reason = "MODEL_NOT_AVAILABLE"
	ReasonCancelled         Reason = "CANCELLED"
	ReasonAudioLost         Reason = "AUDIO_LOST"
)

// traits are what the parts of the scheduler ask about a reason.
type traits uint16

const (
	// lasting: only another registration of the node can remove the reason. "Full" and "incapable" are different.
	lasting traits = 1 << iota
	// soft: a preference, which is ignored before a request is refused.
	soft
	// nodeWide: a node that is rejected for it is rejected for every request.
	nodeWide
	// worthWaiting: a node that is rejected for it may take a job in a moment.
	worthWaiting
	// refusal: a job that failed for it was refused, and no node ever had it.
	refusal
	// free: an attempt that ended for it does not count.
	free
	// confirmed: a node whose attempt ended for it certainly does not have the job.
	confirmed
	// fault: an attempt that ended for it says something about its node.
	fault
)

// reasons has every reason: the only place where something is said about one.
var reasons = map[Reason]struct {
	traits
	requirement string // the kind of requirement that it is about, a label of metrics; empty: a free slot
	pool        string // why a pool has no node for a job, a label of metrics; empty: the name in lower case
}{
	ReasonNone: {traits: worthWaiting, pool: "no_nodes"},

	ReasonSemanticLang:   {traits: lasting, pool: "missing_core_semantic_installed"},
	ReasonASRLang:        {traits: lasting, pool: "missing_core_asr_installed"},
	ReasonNMTPair:        {traits: lasting, pool: "missing_core_nmt_installed"},
	ReasonTTSLang:        {traits: lasting, pool: "missing_core_tts_installed"},
	ReasonModelMissing:   {traits: lasting, requirement: "models"},
	ReasonServiceMissing: {traits: lasting, requirement: "models"},
	ReasonFeatureMissing: {traits: lasting, requirement: "features"},
	ReasonTenant:         {traits: lasting},
	ReasonRegion:         {traits: lasting},
	ReasonPool:           {traits: lasting},

	ReasonNotReady:         {traits: nodeWide},
	ReasonDrained:          {traits: nodeWide},
	ReasonDisconnected:     {traits: nodeWide},
	ReasonHeld:             {},
	ReasonEjected:          {traits: nodeWide},
	ReasonStale:            {traits: nodeWide},
	ReasonUnreachable:      {traits: nodeWide},
	ReasonServiceNotReady:  {requirement: "models"},
	ReasonMarked:           {requirement: "models"},
	ReasonASRNotReady:      {requirement: "models", pool: "missing_core_asr_not_ready"},
	ReasonSemanticNotReady: {requirement: "models", pool: "missing_core_semantic_not_ready"},
	ReasonNMTNotReady:      {requirement: "models", pool: "missing_core_nmt_not_ready"},
	ReasonTTSNotReady:      {requirement: "models", pool: "missing_core_tts_not_ready"},
	ReasonCPU:              {traits: nodeWide | worthWaiting},
	ReasonGPU:              {traits: nodeWide | worthWaiting},
	ReasonMemory:           {traits: nodeWide | worthWaiting},
	ReasonTried:            {},
	ReasonFull:             {},
	ReasonNoCapacity:       {traits: nodeWide},
	ReasonSpread:           {traits: soft},
	ReasonSetAside:         {traits: soft | worthWaiting},
	ReasonPreferredRegion:  {traits: soft},
	ReasonChanged:          {},

	ReasonAllFull:           {traits: refusal},
	ReasonDependencyDown:    {traits: refusal},
	ReasonMaxRetry:          {},
	ReasonDeadline:          {},
	ReasonNodeLost:          {},
	ReasonACKTimeout:        {traits: fault},
	ReasonAttemptTimeout:    {traits: fault},
	ReasonDeliveryRefused:   {traits: free | confirmed | fault},
	ReasonDeliveryUnknown:   {traits: fault},
	ReasonNodeBusy:          {traits: free | confirmed},
	ReasonNodeFailed:        {traits: confirmed | fault},
	ReasonModelNotAvailable: {traits: confirmed},
	ReasonCancelled:         {},
	ReasonAudioLost:         {traits: free | confirmed},
}

func (r Reason) is(t traits) bool { return reasons[r].traits&t != 0 }

// Incapable reports whether only another registration of the node can remove the reason: "full" and "incapable" are
// different.
func (r Reason) Incapable() bool { return r != ReasonNone && r.is(lasting) }

// Soft reports whether the reason is a preference, which is ignored before a request is refused.
func (r Reason) Soft() bool { return r != ReasonNone && r.is(soft) }

// NodeWide reports whether a node that is rejected for this reason is rejected for every request.
func (r Reason) NodeWide() bool { return r != ReasonNone && r.is(nodeWide) }

// WorthWaiting reports whether a node that is rejected for this reason may take a job in a moment. Without a reason it has no free slot.
func (r Reason) WorthWaiting() bool { return r.is(worthWaiting) }

// Refusal reports whether a job that failed for this reason was refused: its caller got a refusal and no node ever had the
// job. Refusals are not recorded as outcomes.
func (r Reason) Refusal() bool { return r.is(refusal) }

// CostsNoAttempt reports whether an attempt that ended for this reason does not count.
func (r Reason) CostsNoAttempt() bool { return r.is(free) }

// ConfirmsRelease reports whether a node whose attempt ended for this reason certainly does not have the job.
func (r Reason) ConfirmsRelease() bool { return r.is(confirmed) }

// CountsAsFailure reports whether an attempt that ended for this reason says something about its node. What the caller caused does not, nor
// that the node had no free slot, nor that it was lost: a lost node gets no jobs anyway.
func (r Reason) CountsAsFailure() bool { return r.is(fault) }

// Requirement returns the kind of requirement that the reason is about, a label of metrics.
func (r Reason) Requirement() string { return cmp.Or(reasons[r].requirement, "reserve") }

// OfPool says why a capability pool has no node for a job, from the most frequent reason of its nodes: a label of metrics, and part of an
// explanation. A service of the pipeline that is missing has a name of its own.
func (r Reason) OfPool() string { return cmp.Or(reasons[r].pool, strings.ToLower(string(r))) }

// MainReason returns the most frequent reason; ReasonNone if there are none. Of those that are equally frequent it is the first in
// alphabetical order.
func MainReason(counts map[Reason]int) (main Reason) {
	for reason, n := range counts {
		if n > counts[main] || n == counts[main] && reason < main {
			main = reason
		}
	}
	return main
}
