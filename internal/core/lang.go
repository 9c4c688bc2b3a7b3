package core

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/text/language"

	"github.com/lingua-scheduler/lingua/wire"
)

// Lang is a normalised BCP-47 tag. Make one with ParseLang: two spellings of one language give the same Lang.
type Lang string

// maxLangLen is more than the length that RFC 5646 §4.4.1 requires implementations to support.
const maxLangLen = 64

// canonical is every canonicalisation except the removal of scripts, which dropImpliedScript does by region: kk-Cyrl-CN is
// not kk-CN.
const canonical = language.All &^ language.SuppressScript

// ParseLang normalises a language tag: deprecated and macro-language subtags are replaced (cmn is zh, iw is
// he) and a script is dropped where the rest already implies it (zh-Hans is zh, zh-Hant-TW is zh-TW).
// Tags that name no single language (und, mul, private use) are refused.
func ParseLang(s string) (Lang, error) {
	if s == "" {
		return "", errors.New("language is missing: give a BCP-47 tag such as en or zh-TW")
	}
	if len(s) > maxLangLen {
		return "", fmt.Errorf("language is longer than %d characters: give a BCP-47 tag such as en or zh-TW", maxLangLen)
	}
	tag, err := canonical.Parse(s)
	if err != nil {
		return "", fmt.Errorf("%q is not a BCP-47 language tag (try en, pt-BR or zh-Hant)", wire.Quote(s))
	}
	base, confidence := tag.Base()
	switch {
	case confidence != language.Exact:
		return "", fmt.Errorf("%q names no language (try en, pt-BR or zh-Hant)", wire.Quote(s))
	case base.String() == "mul", base.String() == "mis", base.String() == "zxx":
		return "", fmt.Errorf("%q names no single language (try en, pt-BR or zh-Hant)", wire.Quote(s))
	}
	return Lang(dropImpliedScript(tag).String()), nil
}

// dropImpliedScript removes a script that the rest of the tag implies. Suppress-Script of the registry covers only
// languages that are written in one script: zh and zh-Hans would remain different.
func dropImpliedScript(tag language.Tag) language.Tag {
	script, confidence := tag.Script()
	if confidence != language.Exact {
		return tag
	}
	subtags := strings.Split(tag.String(), "-")
	if len(subtags) < 2 || subtags[1] != script.String() {
		return tag
	}
	bare, err := language.Parse(strings.Join(slices.Delete(subtags, 1, 2), "-"))
	if err != nil {
		return tag
	}
	if implied, _ := bare.Script(); implied != script {
		return tag
	}
	return bare
}

// script returns the script of the language, explicit or implied.
func (l Lang) script() language.Script {
	tag, _ := language.Parse(string(l))
	script, _ := tag.Script()
	return script
}

// parent truncates the tag by one subtag as in RFC 4647 §3.4: a single-letter subtag that is left at the end is removed
// with the one that it introduced.
func (l Lang) parent() (Lang, bool) {
	cut := strings.LastIndexByte(string(l), '-')
	if cut < 0 {
		return "", false
	}
	for cut >= 2 && l[cut-2] == '-' {
		cut -= 2
	}
	return l[:cut], true
}

func (l Lang) base() string {
	base, _, _ := strings.Cut(string(l), "-")
	return base
}

// lookup lists the tags that satisfy a requirement of l, best first: l itself and its truncations.
func (l Lang) lookup() []Lang {
	tags := []Lang{l}
	for p, ok := l.parent(); ok; p, ok = p.parent() {
		if s := l.script(); p.script() != s {
			if named := Lang(p.base() + "-" + s.String()); !slices.Contains(tags, named) {
				tags = append(tags, named)
			}
		}
		tags = append(tags, p)
	}
	return tags
}

// lookupWritten is lookup for a target language: a truncation in another script does not satisfy it (zh-TW is never
// served by zh).
func (l Lang) lookupWritten() []Lang {
	script := l.script()
	return slices.DeleteFunc(l.lookup(), func(p Lang) bool { return p != l && p.script() != script })
}

// LangSet is a sorted set of languages.
type LangSet []Lang

// NewLangSet makes a set of languages.
func NewLangSet(langs ...Lang) LangSet {
	set := append(make(LangSet, 0, len(langs)), langs...)
	slices.Sort(set)
	return slices.Compact(set)
}

// Has reports whether exactly l is in the set.
func (s LangSet) Has(l Lang) bool {
	_, ok := slices.BinarySearch(s, l)
	return ok
}

// hasAny reports whether one of the tags is in the set.
func (s LangSet) hasAny(tags []Lang) bool {
	return slices.ContainsFunc(tags, s.Has)
}
