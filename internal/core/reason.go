package core

// Reason says why a node was not chosen, why a request was refused, or why a job or an attempt ended. The
// names are stable: they stand in answers, in metrics and in logs.
type Reason string

// ReasonNone is no objection.
const ReasonNone Reason = ""

// Reasons for which a node is passed over. The first group can never serve the job as it is registered;
// the second cannot serve it now.
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

	ReasonNotReady         Reason = "HEALTH_NOT_READY"
	ReasonDrained          Reason = "DRAINED"
	ReasonDisconnected     Reason = "DISCONNECTED"
	ReasonHeld             Reason = "HELD"
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
	ReasonChanged          Reason = "NODE_CHANGED"
)

// Reasons for which a request is refused, or a job or one of its attempts ended.
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

// Incapable reports whether the reason is one that a node cannot lose without registering anew: "full" and
// "incapable" are different answers.
func (r Reason) Incapable() bool {
	switch r {
	case ReasonSemanticLang, ReasonASRLang, ReasonNMTPair, ReasonTTSLang, ReasonModelMissing,
		ReasonServiceMissing, ReasonFeatureMissing, ReasonTenant, ReasonRegion:
		return true
	}
	return false
}

// Soft reports whether the objection is a preference, which yields before a request is refused.
func (r Reason) Soft() bool { return r == ReasonSpread || r == ReasonSetAside }

// Refusal reports whether a job that failed for this reason was refused: its caller was told that there is
// no job, and no node ever had it. A refusal is not remembered.
func (r Reason) Refusal() bool { return r == ReasonAllFull || r == ReasonDependencyDown }
