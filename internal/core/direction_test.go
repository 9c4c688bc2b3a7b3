package core

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// translator returns the capability of a node with all four stages for zh→en and en→zh.
func translator(change func(*Capability)) *Capability {
	c := &Capability{
		ASR:      LangSet{"en", "zh"},
		Semantic: LangSet{"en", "zh"},
		TTS:      LangSet{"en", "zh"},
		Pairs:    []Direction{{"en", "zh"}, {"zh", "en"}},
	}
	if change != nil {
		change(c)
	}
	c.Normalise()
	return c
}

func anyPair(c *Capability) { c.AnyPair = true }

func TestMismatch(t *testing.T) {
	t.Parallel()
	zhEn := Direction{"zh", "en"}
	for _, c := range []struct {
		name     string
		node     *Capability
		required Direction
		tts      bool
		reason   Reason
	}{
		{"everything there", translator(nil), zhEn, true, ReasonNone},
		{"region of the source", translator(nil), Direction{"zh-CN", "en"}, true, ReasonNone},
		{"region of the target", translator(nil), Direction{"zh", "en-US"}, true, ReasonNone},
		{"both regions", translator(nil), Direction{"zh-CN", "en-US"}, true, ReasonNone},
		{"other script of the source", translator(nil), Direction{"zh-TW", "en"}, true, ReasonNone},
		{"nothing declared", &Capability{}, zhEn, false, ReasonSemanticLang},

		// Semantic repair is the hard gate: it does not matter what else is there.
		{"semantic: source missing", translator(func(c *Capability) { c.Semantic = LangSet{"en"} }), zhEn, false, ReasonSemanticLang},
		{"semantic: only a region of the source", translator(func(c *Capability) { c.Semantic = LangSet{"en", "zh-CN"} }), zhEn, false, ReasonSemanticLang},
		{"semantic: target not needed", translator(func(c *Capability) { c.Semantic = LangSet{"zh"} }), zhEn, true, ReasonNone},
		{"semantic: type is No", translator(func(c *Capability) { c.Types.Semantic = No }), zhEn, false, ReasonSemanticLang},
		{"semantic: type is Yes, list does not", translator(func(c *Capability) { c.Types.Semantic = Yes; c.Semantic = LangSet{"en"} }), zhEn, false, ReasonSemanticLang},

		// ASR counts only when the node declares any.
		{"asr: source missing", translator(func(c *Capability) { c.ASR = LangSet{"en"} }), zhEn, false, ReasonASRLang},
		{"asr: none declared", translator(func(c *Capability) { c.ASR = nil }), zhEn, false, ReasonNone},
		{"asr: declared empty", translator(func(c *Capability) { c.ASR = LangSet{} }), zhEn, false, ReasonNone},
		{"asr: target not needed", translator(func(c *Capability) { c.ASR = LangSet{"zh"} }), zhEn, true, ReasonNone},
		{"asr: type is No", translator(func(c *Capability) { c.Types.ASR = No }), zhEn, false, ReasonASRLang},
		{"asr: type is No, none declared", translator(func(c *Capability) { c.Types.ASR = No; c.ASR = nil }), zhEn, false, ReasonASRLang},
		{"asr: type is Yes, none declared", translator(func(c *Capability) { c.Types.ASR = Yes; c.ASR = nil }), zhEn, false, ReasonNone},

		{"two regions of one language", translator(anyPair), Direction{"en-US", "en-GB"}, false, ReasonNMTPair},
		{"nmt: other way round only", translator(func(c *Capability) { c.Pairs = []Direction{{"en", "zh"}} }), zhEn, false, ReasonNMTPair},
		{"nmt: no pairs, declared so", translator(func(c *Capability) { c.Pairs = nil }), zhEn, false, ReasonNMTPair},
		{"nmt: pair of a region does not serve the language", translator(func(c *Capability) { c.Pairs = []Direction{{"zh", "en-US"}} }), zhEn, false, ReasonNMTPair},
		{"nmt: pair of exactly that region", translator(func(c *Capability) { c.Pairs = []Direction{{"zh", "en-US"}} }), Direction{"zh", "en-US"}, false, ReasonNone},
		{"nmt: other script of the target", translator(nil), Direction{"en", "zh-TW"}, false, ReasonNMTPair},
		{"nmt: right script of the target", translator(func(c *Capability) { c.Pairs = []Direction{{"en", "zh-TW"}} }), Direction{"en", "zh-TW"}, false, ReasonNone},
		{"nmt: type is No", translator(func(c *Capability) { c.Types.NMT = No }), zhEn, false, ReasonNMTPair},
		{"nmt: type is Yes, pair missing", translator(func(c *Capability) { c.Types.NMT = Yes; c.Pairs = nil }), zhEn, false, ReasonNMTPair},

		{"any pair: target understood", translator(func(c *Capability) { anyPair(c); c.TTS = nil }), zhEn, false, ReasonNone},
		{"any pair: target spoken only", translator(func(c *Capability) { anyPair(c); c.TTS = LangSet{"fr"} }), Direction{"zh", "fr"}, true, ReasonNone},
		{"any pair: no output for the target", translator(anyPair), Direction{"zh", "fr"}, false, ReasonNMTPair},
		{"any pair: recognising the target is no output", translator(func(c *Capability) { anyPair(c); c.ASR = LangSet{"fr", "zh"} }), Direction{"zh", "fr"}, false, ReasonNMTPair},
		{"any pair: speaking the source is not understanding it", translator(func(c *Capability) { anyPair(c); c.TTS = LangSet{"fr"} }), Direction{"fr", "zh"}, false, ReasonSemanticLang},
		{"any pair: other script of the target", translator(anyPair), Direction{"en", "zh-Hant"}, false, ReasonNMTPair},
		{"any pair: region of the target", translator(anyPair), Direction{"zh", "en-GB"}, false, ReasonNone},
		{"any pair: type is No", translator(func(c *Capability) { anyPair(c); c.Types.NMT = No }), zhEn, false, ReasonNMTPair},

		// Speech counts only when it is asked for.
		{"tts: target missing", translator(func(c *Capability) { c.TTS = LangSet{"zh"} }), zhEn, true, ReasonTTSLang},
		{"tts: target missing, not required", translator(func(c *Capability) { c.TTS = LangSet{"zh"} }), zhEn, false, ReasonNone},
		{"tts: none declared", translator(func(c *Capability) { c.TTS = nil }), zhEn, true, ReasonTTSLang},
		{"tts: none declared, not required", translator(func(c *Capability) { c.TTS = nil }), zhEn, false, ReasonNone},
		{"tts: type is No", translator(func(c *Capability) { c.Types.TTS = No }), zhEn, true, ReasonTTSLang},
		{"tts: type is No, not required", translator(func(c *Capability) { c.Types.TTS = No }), zhEn, false, ReasonNone},
		{"tts: type is Yes, none declared", translator(func(c *Capability) { c.Types.TTS = Yes; c.TTS = nil }), zhEn, true, ReasonTTSLang},
		{"tts: source not needed", translator(func(c *Capability) { c.TTS = LangSet{"en"} }), zhEn, true, ReasonNone},

		{"tone has no part in it", translator(func(c *Capability) { c.Types.Tone = No }), zhEn, true, ReasonNone},

		// The first stage that does not match is reported.
		{"all types are No", translator(func(c *Capability) { c.Types = ServiceTypes{No, No, No, No, No} }), zhEn, true, ReasonSemanticLang},
		{"all but semantic are No", translator(func(c *Capability) { c.Types = ServiceTypes{ASR: No, NMT: No, TTS: No} }), zhEn, true, ReasonASRLang},
		{"nmt and tts are No", translator(func(c *Capability) { c.Types = ServiceTypes{NMT: No, TTS: No} }), zhEn, true, ReasonNMTPair},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := NewRequirement(c.required, c.tts)
			if got := r.Mismatch(c.node); got != c.reason {
				t.Errorf("%s (tts %v) has mismatch %q, want %q", c.required, c.tts, got, c.reason)
			}
		})
	}
}

func TestDirectionsListsDeclaredDirections(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		node *Capability
		want []Direction
	}{
		{"pairs", translator(nil), []Direction{{"en", "zh"}, {"zh", "en"}}},
		{"nothing", &Capability{}, nil},
		{"pair whose source is not understood", translator(func(c *Capability) { c.Semantic = LangSet{"en"} }), []Direction{{"en", "zh"}}},
		{"pair whose source is not recognised", translator(func(c *Capability) { c.ASR = LangSet{"zh"} }), []Direction{{"zh", "en"}}},
		{"nmt switched off", translator(func(c *Capability) { c.Types.NMT = No }), nil},
		{"semantic repair switched off", translator(func(c *Capability) { c.Types.Semantic = No }), nil},
		{"speech does not matter", translator(func(c *Capability) { c.TTS, c.Types.TTS = nil, No }), []Direction{{"en", "zh"}, {"zh", "en"}}},
		{
			"any pair, never onto itself",
			translator(func(c *Capability) { anyPair(c); c.TTS = nil }),
			[]Direction{{"en", "zh"}, {"zh", "en"}},
		},
		{
			"any pair, with a language that is only spoken",
			translator(func(c *Capability) { anyPair(c); c.TTS = LangSet{"fr"} }),
			[]Direction{{"en", "fr"}, {"en", "zh"}, {"zh", "en"}, {"zh", "fr"}},
		},
		{
			"pair of a region, its language understood",
			translator(func(c *Capability) { c.Pairs = []Direction{{"en-US", "zh-TW"}} }),
			[]Direction{{"en-US", "zh-TW"}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := c.node.Directions(100)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("Directions (-want +got):\n%s", diff)
			}
			// A listed direction must be served, or pools would list directions that a dispatch refuses.
			for _, d := range got {
				r := NewRequirement(d, false)
				if r := r.Mismatch(c.node); r != ReasonNone {
					t.Errorf("%s is listed but unserved: %s", d, r)
				}
			}
		})
	}
}

func TestDirectionsLimit(t *testing.T) {
	t.Parallel()
	all := translator(func(c *Capability) { anyPair(c); c.TTS = LangSet{"de", "fr"} }).Directions(100)
	if len(all) != 6 {
		t.Fatalf("there are %d directions, want 6: %v", len(all), all)
	}
	for limit := range 9 {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			t.Parallel()
			node := translator(func(c *Capability) { anyPair(c); c.TTS = LangSet{"de", "fr"} })
			want := min(limit, len(all))
			got := node.Directions(limit)
			if len(got) != want {
				t.Fatalf("Directions(%d) gives %d", limit, len(got))
			}
			for i := range got {
				if got[i] != all[i] {
					t.Errorf("Directions(%d)[%d] = %s, want %s", limit, i, got[i], all[i])
				}
			}
		})
	}
}

// TestDirectionsReturnsACopy checks that changes of the list do not reach the node, which is shared.
func TestDirectionsReturnsACopy(t *testing.T) {
	t.Parallel()
	c := translator(nil)
	before := translator(nil)
	got := c.Directions(1)
	got[0] = Direction{"xx", "yy"}
	_ = append(got, Direction{"xx", "yy"})
	if !c.SameCapability(before) {
		t.Errorf("the capability changed (-want +got):\n%s", cmp.Diff(*before, *c))
	}
}

func TestDirectionString(t *testing.T) {
	t.Parallel()
	if got := (Direction{"zh-TW", "en"}).String(); got != "zh-TW→en" {
		t.Errorf("got %q", got)
	}
}
