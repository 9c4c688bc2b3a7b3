package core

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func mustLang(t testing.TB, tag string) Lang {
	t.Helper()
	l, err := ParseLang(tag)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestLookupTruncates checks RFC 4647 §3.4: the last subtag is removed, and with it a single letter or digit that is left
// at the end.
func TestLookupTruncates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   Lang
		want []Lang
	}{
		{"en", []Lang{"en"}},
		{"en-US", []Lang{"en-US", "en"}},
		{"sl-rozaj-biske-1994", []Lang{"sl-rozaj-biske-1994", "sl-rozaj-biske", "sl-rozaj", "sl"}},
		{"zh-Hant-CN-x-private1-private2", []Lang{
			"zh-Hant-CN-x-private1-private2", "zh-Hant-CN-x-private1", "zh-Hant-CN", "zh-Hant", "zh", // the RFC's own example
		}},
		{"de-DE-u-co-phonebk", []Lang{"de-DE-u-co-phonebk", "de-DE-u-co", "de-DE", "de"}},
		{"en-x-foo", []Lang{"en-x-foo", "en"}},
		{"en-a-bbb-b-ccc", []Lang{"en-a-bbb-b-ccc", "en-a-bbb", "en"}},
	} {
		if diff := cmp.Diff(c.want, c.in.lookup()); diff != "" {
			t.Errorf("%s.lookup() (-want +got):\n%s", c.in, diff)
		}
	}
}

// TestLookupDropsTrailingSingleLetters checks that consecutive single letters are removed together: "en-x" is not a tag.
func TestLookupDropsTrailingSingleLetters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   Lang
		want []Lang
	}{
		{mustLang(t, "i-default"), []Lang{"en-x-i-default", "en"}},
		{"en-a-bbb-x-a-ccc", []Lang{"en-a-bbb-x-a-ccc", "en-a-bbb", "en"}},
	} {
		if diff := cmp.Diff(c.want, c.in.lookup()); diff != "" {
			t.Errorf("%s.lookup() (-want +got):\n%s", c.in, diff)
		}
	}
}

// servedTarget reports whether the target language want is served by a node that has only the tag have.
func servedTarget(t *testing.T, want, have string) bool {
	t.Helper()
	w := NewRequirement(Direction{Src: "fr", Tgt: mustLang(t, want)}, false)
	c := Capability{Semantic: NewLangSet("fr"), Pairs: []Direction{{"fr", mustLang(t, have)}}}
	c.Normalise()
	return w.Mismatch(&c) == ReasonNone
}

// servedSource is servedTarget for the source language.
func servedSource(t *testing.T, want, have string) bool {
	t.Helper()
	src := mustLang(t, have)
	w := NewRequirement(Direction{Src: mustLang(t, want), Tgt: "fr"}, false)
	c := Capability{Semantic: NewLangSet(src), Pairs: []Direction{{src, "fr"}}}
	c.Normalise()
	return w.Mismatch(&c) == ReasonNone
}

func TestLanguageMatching(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want, have     string
		target, source bool
	}{
		// The same tag, in any spelling.
		{"en", "en", true, true},
		{"cmn", "zho_Hans", true, true},
		{"zh-Hant-TW", "zh-TW", true, true},
		{"iw", "he", true, true},

		// A region is served by the language; a language is not served by one of its regions.
		{"en-US", "en", true, true},
		{"pt-BR", "pt", true, true},
		{"es-419", "es", true, true},
		{"zh-CN", "zh", true, true},
		{"zh-CN", "zh-Hans", true, true},
		{"zh-SG", "zh-Hans", true, true},
		{"en", "en-US", false, false},
		{"zh", "zh-CN", false, false},
		{"zh-Hant", "zh-TW", false, false},

		// Regions do not stand for one another: there is no fuzzy matching.
		{"en-US", "en-GB", false, false},
		{"pt-BR", "pt-PT", false, false},
		{"zh-HK", "zh-TW", false, false},
		{"nn", "nb", false, false},
		{"da", "nb", false, false},
		{"yue", "zh", false, false},
		{"yue", "zh-Hant", false, false},

		// What is written has to be in the script that was asked for; what is spoken has no script.
		{"zh-TW", "zh", false, true},
		{"zh-TW", "zh-Hans", false, true},
		{"zh-TW", "cmn", false, true},
		{"zh-TW", "zh-CN", false, false},
		{"zh-HK", "zh", false, true},
		{"zh-Hant", "zh", false, true},
		{"zh-Hant-TW", "zh-Hans", false, true},
		{"zh-Hans-TW", "zh", true, true},
		{"zh-Hans-TW", "zh-TW", false, false},
		{"sr-Latn", "sr", false, true},
		{"sr-Cyrl", "sr", true, true},
		{"sr-Cyrl-ME", "sr", true, true},
		{"uz-Cyrl", "uz", false, true},
		{"ja-Latn", "ja", false, true},
		{"kk-Cyrl-CN", "kk", true, true},
		{"kk-Cyrl-CN", "kk-CN", false, false},
	} {
		if got := servedTarget(t, c.want, c.have); got != c.target {
			t.Errorf("a target %s is served by %s: %v, want %v", c.want, c.have, got, c.target)
		}
		if got := servedSource(t, c.want, c.have); got != c.source {
			t.Errorf("a source %s is served by %s: %v, want %v", c.want, c.have, got, c.source)
		}
	}
}

// TestLookupIncludesDroppedScript checks that zh-Hant-TW, which is normalised to zh-TW, still matches zh-Hant.
func TestLookupIncludesDroppedScript(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ want, have string }{
		{"zh-Hant-TW", "zh-Hant"},
		{"zh-TW", "zh-Hant"}, // the same language in another spelling has the same answer
		{"zh-Hant-HK", "zh-Hant"},
		{"sr-Latn-ME", "sr-Latn"},
		{"pa-Arab-PK", "pa-Arab"},
	} {
		if !servedTarget(t, c.want, c.have) {
			t.Errorf("a target %s is not served by %s", c.want, c.have)
		}
		if !servedSource(t, c.want, c.have) {
			t.Errorf("a source %s is not served by %s", c.want, c.have)
		}
	}
}

func TestLangSet(t *testing.T) {
	t.Parallel()
	given := []Lang{"zh", "en", "zh", "fr"}
	set := NewLangSet(given...)
	if diff := cmp.Diff(LangSet{"en", "fr", "zh"}, set); diff != "" {
		t.Errorf("NewLangSet (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Lang{"zh", "en", "zh", "fr"}, given); diff != "" {
		t.Errorf("NewLangSet changed what it was given (-want +got):\n%s", diff)
	}
	for l, want := range map[Lang]bool{"en": true, "fr": true, "zh": true, "e": false, "en-US": false, "": false, "zz": false} {
		if set.Has(l) != want {
			t.Errorf("Has(%q) = %v, want %v", l, !want, want)
		}
	}
	if NewLangSet().Has("en") || LangSet(nil).Has("en") {
		t.Error("an empty set has a language")
	}
}
