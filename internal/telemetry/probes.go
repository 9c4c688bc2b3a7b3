package telemetry

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// probes counts the probes of nodes.
type probes struct {
	Probes *prometheus.CounterVec // result
}

// probeRefused is the result of a probe that was not sent; the others are the states in which jobs end.
const probeRefused = "refused"

func newProbes(f factory) probes {
	p := probes{f.counterVec("lingua_node_probes_total",
		"Synthetic utterances through single nodes, which operators send, by result. They count in no other metric of jobs.", "result")}
	for _, state := range []core.State{core.StateDone, core.StateFailed, core.StateCancelled} {
		p.Probes.WithLabelValues(strings.ToLower(state.String()))
	}
	p.Probes.WithLabelValues(probeRefused)
	return p
}

// CountProbe counts a probe that ended.
func (p *probes) CountProbe(state core.State) {
	p.Probes.WithLabelValues(strings.ToLower(state.String())).Inc()
}

// CountRefusedProbe counts a probe that was not sent.
func (p *probes) CountRefusedProbe() { p.Probes.WithLabelValues(probeRefused).Inc() }
