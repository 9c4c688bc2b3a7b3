package core

// Direction is a source and a target language.
type Direction struct {
	Src, Tgt Lang
}

func (d Direction) String() string { return string(d.Src) + "→" + string(d.Tgt) }

// Requirement is the direction that a job requires. The tags that satisfy it are computed once, so that matching many
// nodes is cheap.
type Requirement struct {
	Direction
	TTS bool // speech in the target language is required

	src, tgt []Lang // acceptable tags, best first
}

// NewRequirement prepares a direction for matching.
func NewRequirement(d Direction, tts bool) Requirement {
	return Requirement{Direction: d, TTS: tts, src: d.Src.lookup(), tgt: d.Tgt.lookupWritten()}
}

// SourceTags returns the tags of a source language that satisfy the requirement, the best first.
func (r *Requirement) SourceTags() []Lang { return r.src }

// TargetTags returns the tags of a target language that satisfy the requirement, the best first.
func (r *Requirement) TargetTags() []Lang { return r.tgt }

// Mismatch returns the first stage of the pipeline that a node with capability c cannot serve in this direction;
// ReasonNone if it can serve all.
func (r *Requirement) Mismatch(c *Capability) Reason {
	switch {
	case c.Types.Semantic == No || !c.Semantic.hasAny(r.src):
		return ReasonSemanticLang
	case c.Types.ASR == No || len(c.ASR) > 0 && !c.ASR.hasAny(r.src):
		return ReasonASRLang
	case c.Types.NMT == No || !r.canTranslate(c):
		return ReasonNMTPair
	case r.TTS && (c.Types.TTS == No || !c.TTS.hasAny(r.tgt)):
		return ReasonTTSLang
	}
	return ReasonNone
}

// canTranslate reports whether the NMT of the node covers the direction. A node that declares no pairs translates from
// every language that it understands to every other that it can output.
func (r *Requirement) canTranslate(c *Capability) bool {
	for _, src := range r.src {
		for _, tgt := range r.tgt {
			switch {
			case src == tgt: // two regions of one language, which this node does not distinguish
			case c.AnyPair && c.Semantic.Has(src) && (c.Semantic.Has(tgt) || c.TTS.Has(tgt)):
				return true
			case !c.AnyPair && c.hasPair(Direction{src, tgt}):
				return true
			}
		}
	}
	return false
}
