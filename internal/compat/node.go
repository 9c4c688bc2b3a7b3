package compat

import (
	"fmt"

	"github.com/lingua-scheduler/lingua/wire"
)

// NodeRegister is the first message of a node that connects.
type NodeRegister struct {
	wire.NodeRegister
	Aliases
	unknown []string
}

// UnmarshalJSON implements json.Unmarshaler. It notes the fields that have no meaning.
func (r *NodeRegister) UnmarshalJSON(body []byte) error {
	type plain NodeRegister
	return decodeNoting(body, (*plain)(r), &r.unknown)
}

// Translate makes the message one of this protocol, and returns what its sender should change.
func (r *NodeRegister) Translate() (warnings []string) {
	return r.register(&r.Declaration, r.unknown)
}

// RegisterRequest is the body of POST /v1/node/register.
type RegisterRequest struct {
	wire.RegisterRequest
	Aliases
	unknown []string
}

// UnmarshalJSON implements json.Unmarshaler. It notes the fields that have no meaning.
func (r *RegisterRequest) UnmarshalJSON(body []byte) error {
	type plain RegisterRequest
	return decodeNoting(body, (*plain)(r), &r.unknown)
}

// Translate is NodeRegister.Translate.
func (r *RegisterRequest) Translate() (warnings []string) {
	return r.register(&r.Declaration, r.unknown)
}

// NodeHeartbeat is a heartbeat of a connected node.
type NodeHeartbeat struct {
	wire.NodeHeartbeat
	Aliases
}

// Translate makes the message one of this protocol.
func (h *NodeHeartbeat) Translate() { h.translate(&h.Declaration) }

// HeartbeatRequest is the body of POST /v1/node/heartbeat.
type HeartbeatRequest struct {
	wire.HeartbeatRequest
	Aliases
}

// Translate makes the message one of this protocol.
func (h *HeartbeatRequest) Translate() { h.translate(&h.Declaration) }

// Aliases are what a declaration may have under other names, or in another form. Where it has a name of wire.Declaration, it is decoded in
// place of that.
type Aliases struct {
	Languages        *languages `json:"language_capabilities"`
	CPU              *float64   `json:"cpu_usage"`
	GPU              *float64   `json:"gpu_usage"`
	Memory           *float64   `json:"memory_usage"`
	Mem              *float64   `json:"mem_usage"`
	CapabilityByType *types     `json:"capability_by_type"`
	Services         []service  `json:"installed_services"`
}

// languages is the field language_capabilities. What it contains is named as at the top level.
type languages struct {
	ASR      []string   `json:"asr_langs"`
	Semantic []string   `json:"semantic_langs"`
	Pairs    [][]string `json:"nmt_pairs"`
	TTS      []string   `json:"tts_langs"`
}

// defaultSlots is how many jobs a node takes that does not say it.
const defaultSlots = 1

// register translates the declaration of a registration.
func (l *Aliases) register(d *wire.Declaration, unknown []string) (warnings []string) {
	l.translate(d)
	for _, name := range unknown {
		warnings = append(warnings, wire.Quote(name)+" is not known, and has no effect")
	}
	if d.MaxConcurrentJobs == nil {
		d.MaxConcurrentJobs = new(defaultSlots)
		warnings = append(warnings, fmt.Sprintf("max_concurrent_jobs is missing: the node gets %d job at a time", defaultSlots))
	}
	return warnings
}

// translate fills in a declaration. What it has under its own names is kept.
func (l *Aliases) translate(d *wire.Declaration) {
	if c := l.Languages; c != nil {
		fill(&d.ASRLangs, c.ASR)
		fill(&d.SemanticLangs, c.Semantic)
		fill(&d.NMTPairs, c.Pairs)
		fill(&d.TTSLangs, c.TTS)
	}
	if c := l.CapabilityByType; c != nil {
		d.CapabilityByType = &wire.CapabilityByType{ASR: c.ASR.value(), NMT: c.NMT.value(), TTS: c.TTS.value(), Tone: c.Tone.value(),
			Semantic: c.Semantic.value()}
	}
	if l.Services != nil {
		d.InstalledServices = make([]wire.Service, len(l.Services))
		for i, s := range l.Services {
			d.InstalledServices[i] = wire.Service(s)
		}
	}
	l.translateLoad(d)
}

// translateLoad makes percentages parts of 1. One above 100, of several processors, is 100.
func (l *Aliases) translateLoad(d *wire.Declaration) {
	var load wire.Load
	given := false
	for _, u := range []struct {
		from *float64
		to   **float64
	}{{l.CPU, &load.CPU}, {l.GPU, &load.GPU}, {l.Memory, &load.Memory}, {l.Mem, &load.Memory}} {
		if u.from == nil {
			continue
		}
		if *u.from >= 0 { // a negative one is not known
			*u.to = new(min(*u.from/100, 1))
		}
		given = true
	}
	if given && d.CurrentLoad == nil {
		d.CurrentLoad = &load
	}
}

// fill sets a list that is absent.
func fill[T any](to *[]T, from []T) {
	if *to == nil {
		*to = from
	}
}
