package core

import "strings"

// Stages is a set of the stages that a job goes through on a node.
type Stages uint8

// The stages. Synthesis is part of a job only when speech is asked for.
const (
	StageASR Stages = 1 << iota
	StageSemantic
	StageNMT
	StageTTS
)

// stageTypes gives each stage the type by which services declare it, and the reason when none of them is ready.
var stageTypes = [...]struct {
	stage   Stages
	name    string
	unready Reason
}{
	{StageASR, "asr", ReasonASRNotReady},
	{StageSemantic, "semantic", ReasonSemanticNotReady},
	{StageNMT, "nmt", ReasonNMTNotReady},
	{StageTTS, "tts", ReasonTTSNotReady},
}

// stageOf is the stage of a service's type, empty for a type that is unknown or not given: such a service decides nothing.
func stageOf(name string) Stages {
	for i := range stageTypes {
		if strings.EqualFold(stageTypes[i].name, name) {
			return stageTypes[i].stage
		}
	}
	return 0
}

// Stages are those for which the node declares services.
func (c *Capability) Stages() Stages {
	var declared Stages
	for i := range c.Services {
		declared |= stageOf(c.Services[i].Type)
	}
	return declared
}

// Unready are the stages for which the node declares services and none of them can be used: it is ready, and not marked
// unavailable. A node that declares no service for a stage has that stage built in.
func (c *Capability) Unready(marked func(service string) bool) Stages {
	var declared, ready Stages
	for i := range c.Services {
		s := &c.Services[i]
		stage := stageOf(s.Type)
		declared |= stage
		if s.Status == ServiceReady && !marked(s.ID) {
			ready |= stage
		}
	}
	return declared &^ ready
}

// Reason names the first stage of the set that a job needs, ReasonNone when it needs none of them.
func (s Stages) Reason(tts bool) Reason {
	if !tts {
		s &^= StageTTS
	}
	for i := range stageTypes {
		if s&stageTypes[i].stage != 0 {
			return stageTypes[i].unready
		}
	}
	return ReasonNone
}
