package core

// StageState returns the stages of the pipeline that a node has, and those of them that it can use now. A node has a stage for which it
// declares a service, whatever the status of the service; one for which it declares none is built into it if its lists name languages for
// it. A stage cannot be used if the node says that it does not run, or if it declares services for it of which none is ready and unmarked.
func (c *Capability) StageState(marked func(*Service) bool) (installed, ready Stages) {
	var builtIn, stopped Stages
	for _, s := range [...]struct {
		stage Stages
		runs  Tri
		lists bool
	}{
		{StageASR, c.Types.ASR, len(c.ASR) > 0 || len(c.Semantic) > 0},
		{StageSemantic, c.Types.Semantic, len(c.Semantic) > 0},
		{StageNMT, c.Types.NMT, c.AnyPair || len(c.Pairs) > 0},
		{StageTTS, c.Types.TTS, len(c.TTS) > 0},
	} {
		switch {
		case s.runs == No:
			stopped |= s.stage
		case s.lists:
			builtIn |= s.stage
		}
	}
	installed = c.Stages() | builtIn
	return installed, installed &^ stopped &^ c.Unready(marked)
}
