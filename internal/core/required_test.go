package core

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSatisfies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		version, conditions string
		want                bool
	}{
		{"2.1", "", true},
		{"", "", true},
		{"", "2.1", false},
		{"", ">=0", false},
		{"2.1", "2.1", true},
		{"2.1.0", "2.1", true},
		{"2.1.1", "2.1", false},
		{"2.1", "=2.1", true},
		{"v2.1", "2.1", true},
		{"3", ">=3", true},
		{"3.0.1", ">=3", true},
		{"2.99", ">=3", false},
		{"2.10", ">2.9", true},
		{"2.9", ">2.9", false},
		{"4", ">=3,<4", false},
		{"3.9.9", ">=3,<4", true},
		{"3.0-rc.1", ">=3", false},
		{"3.0-rc.10", ">3.0-rc.9", true},
		{"3.0-rc.1", ">3.0-rc", true},
		{"3.0+build.7", "3.0", true},
		{"2024-11-17", ">=2024", false}, // what follows a hyphen is a pre-release
		{"20241117", ">=20241001", true},
		{"18446744073709551617", ">18446744073709551616", true},
		{"latest", ">=1", false}, // a word has no place in the order
		{"latest", "<9", false},
		{"latest", "1.0", false},
		{"latest", "latest", true},
		{"latest", "=latest", true},
		{"latest", "latest,>=1", false},
		{"dev", "latest", false},
		{"dev", ">=4,<5", false},
		{"unknown", ">1000", false},
		{"n/a", "<=1000", false},
		{"3.x", ">=3", false},
		{"3.1b", ">=3", false},
		{"3.1b", "3.1b", true},
		{"3-", ">=2", false},
		{"v", ">=0", false},
		{"3", "latest", false},
	} {
		if got := Satisfies(c.version, c.conditions); got != c.want {
			t.Errorf("Satisfies(%q, %q) = %v, want %v", c.version, c.conditions, got, c.want)
		}
	}
}

func TestCheckRequired(t *testing.T) {
	t.Parallel()
	const example = "write an id, or an id and its versions, such as asr-large@2.1 or nmt@>=3,<4"
	const condition = " is not a condition on a version: write one such as 2.1, >=3 or <4, or several with commas between them"
	for required, want := range map[string]string{
		"asr": "", "asr-large@2.1": "", "nmt@>=3": "", "nmt@>=3,<4": "", "a.b:c_d@v1.0-rc.1+x": "", "nmt@latest": "", "nmt@=dev": "", "nmt@>=3,<=3": "", "org/asr v2": "",
		"":       `"" has no id: ` + example,
		"@2":     `"@2" has no id: ` + example,
		"a,b":    `"a,b": an id must not contain any of , < > =: ` + example,
		"a=b@2":  `"a=b@2": an id must not contain any of , < > =: ` + example,
		"nmt>=3": `"nmt>=3": put an @ before the version: nmt@>=3`,
		"nmt@":   `"nmt@" has no version after the @: write nmt for any version, or conditions such as 2.1, >=3 or >=3,<4 after it`,
		"nmt@>=": `"nmt@>=": ">="` + condition, "nmt@>=3,": `"nmt@>=3,": ""` + condition, "nmt@>>3": `"nmt@>>3": ">>3"` + condition,
		"nmt@3@4": `"nmt@3@4": "3@4"` + condition, "nmt@ 3": `"nmt@ 3": " 3"` + condition, "nmt@^3": `"nmt@^3": "^3"` + condition, "nmt@>=3 <4": `"nmt@>=3 <4": ">=3 <4"` + condition,
		"nmt@3..1": `"nmt@3..1": "3..1"` + condition, "nmt@3-": `"nmt@3-": "3-"` + condition,
		"nmt@>=latest": `"nmt@>=latest": "latest" has no place in the order of versions: compare with numbers, such as >=3, or write the word alone`,
		"nmt@3.x":      `"nmt@3.x": "3.x" is not a version: there are no wildcards, write >=3,<4`,
		"nmt@3.9.*":    `"nmt@3.9.*": "3.9.*" is not a version: there are no wildcards, write >=3.9,<3.10`,
		"nmt@>=v3.X":   `"nmt@>=v3.X": "v3.X" is not a version: there are no wildcards, write >=3,<4`,
		"nmt@*":        `"nmt@*": "*" is not a version: there are no wildcards, write only the id for any version`,
		"\x00":         `"\x00" must not contain control characters`,
		"nmt@1\n2":     `"nmt@1\n2" must not contain control characters`,
	} {
		if got := errorText(CheckRequired(required)); got != want {
			t.Errorf("CheckRequired(%q):\n got %s\nwant %s", required, got, want)
		}
	}
	const none = "no version satisfies all conditions: write a range from the lower to the higher version, such as >=3,<4"
	for _, conditions := range []string{">=4,<3", ">3,<3", ">=3,<3", ">3,<=3", "2,>=3", "2,3", "latest,>=1", ">=1,<9,<1"} {
		if got, want := errorText(CheckRequired("nmt@"+conditions)), fmt.Sprintf("%q: %s", "nmt@"+conditions, none); got != want {
			t.Errorf("%s:\n got %s\nwant %s", conditions, got, want)
		}
	}
	if got, want := errorText(CheckRequired("n@1"+strings.Repeat(",1", maxConditions))), `"n@1,1,1,1,1,1,1,1,1" has 9 conditions; the maximum is 8`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// errorText is the text of an error; empty: there is none.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestRanges: conditions that are accepted imply others exactly if every version that satisfies them satisfies the others, and those that no
// version satisfies are refused.
func TestRanges(t *testing.T) {
	t.Parallel()
	numbers := []string{"1", "2", "3"}
	between := []string{"0", "1-a", "1", "1.5", "2-a", "2", "2.5", "3-a", "3", "4", "latest"}
	conditions := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
			return rapid.SampledFrom([]string{"", "=", ">", ">=", "<", "<="}).Draw(t, "operator") + rapid.SampledFrom(numbers).Draw(t, "version")
		}), 1, 3).Draw(t, "conditions"), ",")
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := conditions.Draw(t, "a"), conditions.Draw(t, "b")
		satisfied, implied := false, true
		for _, v := range between {
			if Satisfies(v, a) {
				satisfied, implied = true, implied && Satisfies(v, b)
			}
		}
		if err := CheckRequired("s@" + a); (err == nil) != satisfied {
			t.Fatalf("some version satisfies %s: %t, and the check says %v", a, satisfied, err)
		}
		if got := implies(a, b); satisfied && got != implied {
			t.Fatalf("%s implies %s: %t, want %t", a, b, got, implied)
		}
	})
}

// TestVersionsAreOrdered checks that the order of versions is total.
func TestVersionsAreOrdered(t *testing.T) {
	t.Parallel()
	version := rapid.StringMatching(`v?[0-9]{1,2}(\.[0-9a-c]{1,2}){0,2}(-[0-9ab]{1,2}(\.[0-9ab]){0,2})?`)
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := version.Draw(t, "a"), version.Draw(t, "b"), version.Draw(t, "c")
		if compareVersions(a, a) != 0 || compareVersions(a, b) != -compareVersions(b, a) {
			t.Fatalf("%s and %s: %d, %d", a, b, compareVersions(a, b), compareVersions(b, a))
		}
		if compareVersions(a, b) <= 0 && compareVersions(b, c) <= 0 && compareVersions(a, c) > 0 {
			t.Fatalf("%s ≤ %s ≤ %s, and yet the first is after the last", a, b, c)
		}
	})
}

// TestRequiredVersions checks which versions of services and models a node has.
func TestRequiredVersions(t *testing.T) {
	t.Parallel()
	c := Capability{
		Services: []Service{
			{ID: "asr", Version: "2.0", Status: ServiceReady}, {ID: "asr", Version: "3.1", Status: ServiceInstalling},
			{ID: "asr-large", Version: "9", Status: ServiceReady}, {ID: "tts", Status: ServiceReady},
		},
		Models: []string{"whisper", "whisper-large@3", "whisper@2.1", "whisperx@7"},
	}
	c.Normalise()
	for _, s := range []struct {
		required         string
		installed, ready bool
	}{
		{"asr", true, true}, {"asr@2", true, true}, {"asr@>=3", true, false}, {"asr@>=4", false, false}, {"asr@>=9", false, false},
		{"tts", true, true}, {"tts@>=0", false, false}, {"nmt", false, false},
	} {
		installed, ready := c.ServiceState(s.required)
		if installed != s.installed || ready != s.ready {
			t.Errorf("%s: installed %v, ready %v; want %v, %v", s.required, installed, ready, s.installed, s.ready)
		}
		if got := c.Usable(s.required, func(*Service) bool { return false }); got != s.ready {
			t.Errorf("%s is usable: %v, want %v", s.required, got, s.ready)
		}
	}
	if c.Usable("asr@<3", func(s *Service) bool { return s.Version == "2.0" }) {
		t.Error("a version that is marked is usable")
	}
	for required, want := range map[string]bool{
		"whisper": true, "whisper@2.1": true, "whisper@>=3": false, "whisper-large": true, "whisper-large@3": true, "whisperx@>=7": true, "whisp": false, "whisper-": false, "zz": false,
	} {
		if got := c.HasModel(required); got != want {
			t.Errorf("HasModel(%q) = %v, want %v", required, got, want)
		}
	}
}
