package core

import "strings"

// Stages is a set of the pipeline stages of a job on a node.
type Stages uint8

// The stages. TTS is part of a job only if speech is required.
const (
	StageASR Stages = 1 << iota
	StageSemantic
	StageNMT
	StageTTS
)

// stageTypes has for each stage the type of its services, and the reason if none of them is ready.
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

// stageOf returns the stage of a type of service; none for an unknown or empty type, whose services are ignored.
func stageOf(name string) Stages {
	for i := range stageTypes {
		if strings.EqualFold(stageTypes[i].name, name) {
			return stageTypes[i].stage
		}
	}
	return 0
}

// Stages returns the stages for which the node declares services.
func (c *Capability) Stages() Stages {
	var declared Stages
	for i := range c.Services {
		declared |= stageOf(c.Services[i].Type)
	}
	return declared
}

// Unready returns the stages for which the node declares services of which none is ready and unmarked. A stage without a
// declared service is built into the node.
func (c *Capability) Unready(marked func(*Service) bool) Stages {
	var declared, ready Stages
	for i := range c.Services {
		s := &c.Services[i]
		stage := stageOf(s.Type)
		declared |= stage
		if s.Status == ServiceReady && !marked(s) {
			ready |= stage
		}
	}
	return declared &^ ready
}

// Reason returns the reason of the first stage of the set that a job requires; ReasonNone if it requires none of them.
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
