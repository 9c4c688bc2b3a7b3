package core

// Direction is one way of a translation.
type Direction struct {
	Src, Tgt Lang
}

func (d Direction) String() string { return string(d.Src) + "→" + string(d.Tgt) }

// Wish is a direction as a job asks for it, with the tags that would satisfy it worked out once, so that
// many nodes can be held against it cheaply.
type Requirement struct {
	Direction
	TTS bool // the target must also be spoken

	src, tgt []Lang // acceptable tags, best first
}

// NewWish prepares a direction for matching.
func NewRequirement(d Direction, tts bool) Requirement {
	return Requirement{Direction: d, TTS: tts, src: d.Src.lookup(), tgt: d.Tgt.lookupWritten()}
}

// Unserved says which link of the chain keeps a node with capability c out of this direction; ReasonNone
// when it belongs to it.
func (w *Requirement) Mismatch(c *Capability) Reason {
	switch {
	case c.Types.Semantic == No || !c.Semantic.hasAny(w.src):
		return ReasonSemanticLang
	case c.Types.ASR == No || len(c.ASR) > 0 && !c.ASR.hasAny(w.src):
		return ReasonASRLang
	case c.Types.NMT == No || !w.translated(c):
		return ReasonNMTPair
	case w.TTS && (c.Types.TTS == No || !c.TTS.hasAny(w.tgt)):
		return ReasonTTSLang
	}
	return ReasonNone
}

// translated reports whether the node's NMT covers the direction. A node that declares no pairs translates
// from anything it understands to anything else it has an output for.
func (w *Requirement) translated(c *Capability) bool {
	for _, src := range w.src {
		for _, tgt := range w.tgt {
			switch {
			case src == tgt: // two regions of one language, to a node that knows no regions
			case c.AnyPair && c.Semantic.Has(src) && (c.Semantic.Has(tgt) || c.TTS.Has(tgt)):
				return true
			case !c.AnyPair && c.hasPair(Direction{src, tgt}):
				return true
			}
		}
	}
	return false
}
