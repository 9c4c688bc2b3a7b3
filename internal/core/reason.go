package core

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

// Incapable reports whether only another registration of the node can remove the reason: "full" and "incapable" are
// different.
func (r Reason) Incapable() bool {
	switch r {
	case ReasonSemanticLang, ReasonASRLang, ReasonNMTPair, ReasonTTSLang, ReasonModelMissing,
		ReasonServiceMissing, ReasonFeatureMissing, ReasonTenant, ReasonRegion, ReasonPool:
		return true
	}
	return false
}

// Soft reports whether the reason is a preference, which is ignored before a request is refused.
func (r Reason) Soft() bool {
	return r == ReasonSpread || r == ReasonSetAside || r == ReasonPreferredRegion
}

// Refusal reports whether a job that failed for this reason was refused: its caller got a refusal and no node ever had the
// job. Refusals are not recorded as outcomes.
func (r Reason) Refusal() bool { return r == ReasonAllFull || r == ReasonDependencyDown }
