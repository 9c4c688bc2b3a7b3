package core

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/language"
)

func TestParseLang(t *testing.T) {
	t.Parallel()
	// Each line holds spellings of one language that have to meet.
	for want, spellings := range map[Lang][]string{
		"zh":         {"zh", "cmn", "zho", "chi", "zho_Hans", "zh-Hans", "zh_Hans", "ZH-hans", "cmn-Hans", "zh-cmn-Hans"},
		"zh-CN":      {"zh-CN", "zh_CN", "zh-Hans-CN", "zho_Hans_CN", "cmn-Hans-CN", "ZH_cn"},
		"zh-TW":      {"zh-TW", "zh-Hant-TW", "zh_Hant_TW", "zh_TW", "cmn-Hant-TW"},
		"zh-HK":      {"zh-HK", "zh-Hant-HK"},
		"zh-Hant":    {"zh-Hant", "zho_Hant", "cmn-Hant"},
		"zh-Hans-TW": {"zh-Hans-TW"}, // not implied by the region: the script stays
		"yue":        {"yue", "zh-yue", "yue-Hant"},
		"yue-Hans":   {"yue-Hans"},
		"he":         {"he", "iw", "heb", "heb_Hebr"},
		"id":         {"id", "in", "ind_Latn"},
		"yi":         {"yi", "ji"},
		"no":         {"no", "nb", "nob", "nob_Latn"},
		"nn":         {"nn", "nno_Latn"},
		"en":         {"en", "eng", "eng_Latn", "en-Latn", "EN"},
		"en-US":      {"en-US", "en_US", "en-us", "EN-US", "eng_US", "en-Latn-US"},
		"ar":         {"ar", "arb", "arb_Arab"},
		"fil":        {"fil", "tl", "tgl_Latn"},
		"sr":         {"sr", "sr-Cyrl", "srp_Cyrl"},
		"sr-Latn":    {"sr-Latn", "sh"},
		"ja":         {"ja", "jpn_Jpan", "ja-Jpan"},
		"ja-Latn":    {"ja-Latn"},
		"pt-BR":      {"pt-BR", "pt_br"},
		"es-419":     {"es-419"},
		"uz":         {"uz", "uz-Latn", "uzn_Latn"},
		"uz-Cyrl":    {"uz-Cyrl"},
		"en-x-foo":   {"en-x-foo"}, // private use within a language still names the language
		"de-DE-1996": {"de-DE-1996"},
	} {
		for _, s := range spellings {
			got, err := ParseLang(s)
			if err != nil || got != want {
				t.Errorf("ParseLang(%q) = %q, %v, want %q", s, got, err, want)
			}
		}
	}
}

func TestParseLangErrors(t *testing.T) {
	t.Parallel()
	long := "en-" + strings.Repeat("x", 200)
	justOver := "en-x" + strings.Repeat("-abcdefgh", 6) + "-abcdef" // 65 characters
	for _, c := range []struct{ name, in, want string }{
		{"empty", "", "is missing"},
		{"over-long", long, "longer than 64"},
		{"one too long", justOver, "longer than 64"},
		{"undetermined", "und", "names no language"},
		{"undetermined with a region", "und-US", "names no language"},
		{"undetermined with a script", "und-Latn", "names no language"},
		{"many languages", "mul", "names no single language"},
		{"uncoded", "mis", "names no single language"},
		{"no linguistic content", "zxx", "names no single language"},
		{"private use only", "x-foo", "names no language"},
		{"to be detected", "auto", "not a BCP-47"},
		{"a name", "english", "not a BCP-47"},
		{"a name in its own script", "中文", "not a BCP-47"},
		{"unknown code", "xx", "not a BCP-47"},
		{"one character", "e", "not a BCP-47"},
		{"digits", "123", "not a BCP-47"},
		{"trailing hyphen", "en-", "not a BCP-47"},
		{"leading hyphen", "-en", "not a BCP-47"},
		{"double hyphen", "en--US", "not a BCP-47"},
		{"locale with an encoding", "zh_CN.UTF-8", "not a BCP-47"},
		{"dots", "zh_CN..", "not a BCP-47"},
		{"blank around", " en ", "not a BCP-47"},
		{"list", "en,zh", "not a BCP-47"},
		{"zero byte", "en\x00", "not a BCP-47"},
		{"not UTF-8", "\xff\xfe", "not a BCP-47"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseLang(c.in)
			if err == nil || got != "" {
				t.Fatalf("ParseLang(%q) = %q, %v, want an error", c.in, got, err)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("ParseLang(%q): error %q does not contain %q", c.in, err, c.want)
			}
			// Every refusal shows a tag that would do.
			if !strings.Contains(err.Error(), "en") || !strings.Contains(err.Error(), "zh-") {
				t.Errorf("ParseLang(%q): error %q gives no example", c.in, err)
			}
			if len(err.Error()) > 200 {
				t.Errorf("ParseLang(%q): the error repeats %d bytes of it", c.in, len(err.Error()))
			}
		})
	}
}

// TestParseLangMaxLength checks a tag of the maximum length.
func TestParseLangMaxLength(t *testing.T) {
	t.Parallel()
	tag := "en-x" + strings.Repeat("-abcdefgh", 6) + "-abcde" // 64 characters
	if len(tag) != maxLangLen {
		t.Fatalf("the tag has %d characters, want %d", len(tag), maxLangLen)
	}
	if got, err := ParseLang(tag); err != nil || got != Lang(tag) {
		t.Errorf("ParseLang(%q) = %q, %v", tag, got, err)
	}
}

// TestParseLangKeepsTheScript checks that a script is not dropped if that changes the meaning: kk-Cyrl-CN is Kazakh in
// Cyrillic, kk-CN is Kazakh in Arabic script.
func TestParseLangKeepsTheScript(t *testing.T) {
	t.Parallel()
	for _, tag := range []string{
		"zh-Hans-TW", "zh-Hant-CN", "zh-Hans-HK", "sr-Cyrl-ME", "sr-Latn-RS", "uz-Cyrl-UZ", "az-Cyrl-AZ", "ja-Latn-JP",
		"kk-Cyrl-CN", "kk-Cyrl-MN", "ms-Latn-ID", "ms-Latn-CC", "pa-Guru-PK", "pa-Arab-IN", "mn-Cyrl-CN", "en-Latn-US", "ru-Cyrl-RU",
	} {
		want, _ := language.Raw.Make(tag).Script()
		lang, err := ParseLang(tag)
		if err != nil {
			t.Errorf("ParseLang(%q): %v", tag, err)
			continue
		}
		if diff := cmp.Diff(want.String(), lang.script().String()); diff != "" {
			t.Errorf("%s became %s, which is written in another script (-want +got):\n%s", tag, lang, diff)
		}
	}
}

// FuzzParseLang checks that parsing never panics, that a Lang is its own normal form, and that an error has no Lang.
func FuzzParseLang(f *testing.F) {
	for _, s := range []string{
		"cmn", "zho_Hans", "zh-Hant-TW", "zh_CN..", "iw", "nb", "en_US", "sr-Cyrl", "und", "mul", "x-foo", "", "auto", "sh", "mo",
		"i-default", "i-klingon", "en-GB-oed", "zh-min-nan", "art-lojban", "sgn-BE-FR", "de-u-co-phonebk", "en-a-bbb-x-a-ccc",
		"en-US-u-rg-gbzzzz", "en_US_POSIX", "kk-Cyrl-CN", "sl-rozaj-biske-1994", "en-t-ja", "zh-Hani", "en-Zzzz-ZZ", "\xff",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		lang, err := ParseLang(s)
		if err != nil {
			if lang != "" {
				t.Fatalf("ParseLang(%q) = %q with the error %v", s, lang, err)
			}
			return
		}
		again, err := ParseLang(string(lang))
		if err != nil || again != lang {
			t.Fatalf("ParseLang(%q) = %q, and that gives %q, %v", s, lang, again, err)
		}
		// What is accepted has to be usable for matching: it serves itself.
		if tags := lang.lookupWritten(); len(tags) == 0 || tags[0] != lang {
			t.Fatalf("%q is not first among the tags that serve it: %q", lang, tags)
		}
	})
}
