package core

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func fullSpec() Spec {
	return Spec{
		Request: "req-1", Tenant: "acme", Session: "s-1", Incarnation: "inc-1", Direction: Direction{"zh", "en"},
		Utterance: Utterance{Turn: 3, ID: "u-3", AudioMS: 600, Continues: 2, WaitMS: 40, SegmentationMS: 50}, AudioRef: "https://audio.example/1.wav?sig=abc",
		Options: Options{
			RequireTTS: true, RequiredServices: []string{"asr-2", "nmt-1"}, RequiredModels: []string{"m-1", "m-2"},
			Features: []string{"tone", "vad"}, PreferredNodeID: new("node-1"), Strict: true, Region: "eu",
		},
	}
}

// leaves returns the fields of a struct that are not structs themselves, by path.
func leaves(v reflect.Value, path string) map[string]reflect.Value {
	if v.Kind() != reflect.Struct {
		return map[string]reflect.Value{path: v}
	}
	all := make(map[string]reflect.Value)
	for i := range v.NumField() {
		for name, leaf := range leaves(v.Field(i), path+"."+v.Type().Field(i).Name) {
			all[name] = leaf
		}
	}
	return all
}

// alter sets a field to another value.
func alter(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		v.SetString("other" + v.String())
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint8:
		v.SetUint(v.Uint() + 1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Slice:
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
	default:
		t.Fatalf("do not know how to change a %s", v.Type())
	}
}

// TestFingerprintChangesWithEveryField uses reflection, so that a new field cannot be omitted from the fingerprint.
func TestFingerprintChangesWithEveryField(t *testing.T) {
	t.Parallel()
	full := fullSpec()
	base := full.Fingerprint()
	for name := range leaves(reflect.ValueOf(&full).Elem(), "Spec") {
		changed := fullSpec()
		alter(t, leaves(reflect.ValueOf(&changed).Elem(), "Spec")[name])
		same := changed.Fingerprint() == base
		// The request id is what the fingerprint is kept under, not part of the content; nor is how long it waited or may wait, which node it avoids or how it
		// is counted for its tenant.
		if want := name == "Spec.Request" || name == "Spec.Utterance.WaitMS" || name == "Spec.Options.MaxWaitMS" || name == "Spec.Utterance.SegmentationMS" || name == "Spec.LastNode" || name == "Spec.Admission" || strings.HasPrefix(name, "Spec.Pool."); same != want {
			t.Errorf("%s changed: same fingerprint: %v, want %v", name, same, want)
		}
	}
}

func TestFingerprintOfEachListElement(t *testing.T) {
	t.Parallel()
	lists := map[string]func(*Options) *[]string{
		"services": func(o *Options) *[]string { return &o.RequiredServices },
		"models":   func(o *Options) *[]string { return &o.RequiredModels },
		"features": func(o *Options) *[]string { return &o.Features },
	}
	full := fullSpec()
	base := full.Fingerprint()
	for name, list := range lists {
		reversed, other, nested := fullSpec(), fullSpec(), fullSpec()
		slices.Reverse(*list(&reversed.Options))
		if got := reversed.Fingerprint(); got != base {
			t.Errorf("%s: the order changes the fingerprint", name)
		}
		(*list(&other.Options))[1] += "x"
		if got := other.Fingerprint(); got == base {
			t.Errorf("%s: another element gives the same fingerprint", name)
		}
		l := list(&nested.Options)
		*l = []string{(*l)[0] + (*l)[1]}
		if got := nested.Fingerprint(); got == base {
			t.Errorf("%s: two elements and their join give the same fingerprint", name)
		}
	}
}

func TestFingerprintDoesNotChangeTheLists(t *testing.T) {
	t.Parallel()
	s := Spec{Options: Options{Features: []string{"b", "a"}}}
	s.Fingerprint()
	if diff := cmp.Diff([]string{"b", "a"}, s.Options.Features); diff != "" {
		t.Errorf("the caller's list changed (-want +got):\n%s", diff)
	}
}

// TestFingerprintSeparatesFields checks that text moved from one field or list to the next changes the fingerprint.
func TestFingerprintSeparatesFields(t *testing.T) {
	t.Parallel()
	specs := []Spec{
		{Tenant: "ab", Session: "c"},
		{Tenant: "a", Session: "bc"},
		{Options: Options{RequiredServices: []string{"a"}, RequiredModels: []string{"b"}}},
		{Options: Options{RequiredServices: []string{"a", "b"}}},
		{Options: Options{RequiredModels: []string{"a", "b"}}},
		{Options: Options{Features: []string{"a", "b"}}},
		{Direction: Direction{"zh", "en"}},
		{Direction: Direction{"en", "zh"}},
		{Options: Options{RequireTTS: true}},
		{Options: Options{Strict: true}},
		{Options: Options{PreferredNodeID: new("eu")}},
		{Options: Options{Region: "eu"}},
	}
	seen := make(map[string]int)
	for i := range specs {
		f := specs[i].Fingerprint()
		if j, dup := seen[f]; dup {
			t.Errorf("these have the same fingerprint:\n%+v\n%+v", specs[j], specs[i])
		}
		seen[f] = i
	}
}

// TestFingerprintIgnoresTheAudioQuery checks that another signature of the URL is still the same audio.
func TestFingerprintIgnoresTheAudioQuery(t *testing.T) {
	t.Parallel()
	of := func(ref string) string {
		s := Spec{AudioRef: ref}
		return s.Fingerprint()
	}
	const base = "https://audio.example/1.wav"
	for _, same := range []string{base + "?", base + "?sig=1", base + "?sig=2&exp=3", base + "?a?b"} {
		if of(same) != of(base) {
			t.Errorf("%s and %s have different fingerprints", same, base)
		}
	}
	for _, other := range []string{"", "https://audio.example/2.wav", "https://audio.example/2.wav?sig=1", "https://other.example/1.wav"} {
		if of(other) == of(base) {
			t.Errorf("%q and %s have the same fingerprint", other, base)
		}
	}
}

// TestFingerprintIsStable compares with a value that was computed outside this program: older releases have stored it.
func TestFingerprintIsStable(t *testing.T) {
	t.Parallel()
	s := fullSpec()
	if diff := cmp.Diff("6ad8500418951b9468a69807c16db9c9", s.Fingerprint()); diff != "" {
		t.Errorf("fingerprint (-want +got):\n%s", diff)
	}
}
