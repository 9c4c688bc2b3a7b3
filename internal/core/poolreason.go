package core

import "strings"

// PoolReason says why a capability pool has no node for a job, from the most frequent reason of its nodes: a label of metrics, and part of an
// explanation. A service of the pipeline that is missing has a name of its own.
func PoolReason(r Reason) string {
	switch r {
	case ReasonNone:
		return "no_nodes"
	case ReasonASRLang:
		return "missing_core_asr_installed"
	case ReasonSemanticLang:
		return "missing_core_semantic_installed"
	case ReasonNMTPair:
		return "missing_core_nmt_installed"
	case ReasonTTSLang:
		return "missing_core_tts_installed"
	case ReasonASRNotReady:
		return "missing_core_asr_not_ready"
	case ReasonSemanticNotReady:
		return "missing_core_semantic_not_ready"
	case ReasonNMTNotReady:
		return "missing_core_nmt_not_ready"
	case ReasonTTSNotReady:
		return "missing_core_tts_not_ready"
	}
	return strings.ToLower(string(r))
}

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
