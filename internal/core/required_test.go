package core

import (
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
		{"1.a", "<1.b", true},
		{"1.2", "<1.b", true},
		{"latest", ">=1", true}, // a name is after every number
		{"latest", "1.0", false},
	} {
		if got := Satisfies(c.version, c.conditions); got != c.want {
			t.Errorf("Satisfies(%q, %q) = %v, want %v", c.version, c.conditions, got, c.want)
		}
	}
}

func TestCheckRequired(t *testing.T) {
	t.Parallel()
	for required, valid := range map[string]bool{
		"asr": true, "asr-large@2.1": true, "nmt@>=3": true, "nmt@>=3,<4": true, "a.b:c_d@v1.0-rc.1+x": true,
		"": false, "@2": false, "nmt@": false, "nmt@>=": false, "nmt@>=3,": false, "nmt@latest": false, "nmt@>>3": false, "nmt@3@4": false, "nmt>=3": false, "a,b": false, "nmt@ 3": false,
	} {
		if err := CheckRequired(required); (err == nil) != valid {
			t.Errorf("CheckRequired(%q) = %v, want valid: %v", required, err, valid)
		}
	}
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
