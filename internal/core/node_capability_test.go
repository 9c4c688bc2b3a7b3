package core

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestNormalise(t *testing.T) {
	t.Parallel()
	c := Capability{
		ASR: LangSet{"zh", "en", "zh"}, Semantic: LangSet{"zh", "en"}, TTS: LangSet{"fr", "fr"},
		Pairs:  []Direction{{"zh", "en"}, {"en", "zh"}, {"zh", "en"}, {"en", "fr"}},
		Models: []string{"m2", "m1", "m2"},
		Services: []Service{
			{ID: "b", Version: "1", Status: ServiceReady},
			{ID: "a", Version: "2", Status: ServiceReady},
			{ID: "a", Version: "1", Status: ServiceStopped},
			{ID: "b", Version: "1", Status: ServiceReady},
		},
		Features: []string{"vad", "tone", "vad"},
	}
	c.Normalise()
	want := Capability{
		ASR: LangSet{"en", "zh"}, Semantic: LangSet{"en", "zh"}, TTS: LangSet{"fr"},
		Pairs:  []Direction{{"en", "fr"}, {"en", "zh"}, {"zh", "en"}},
		Models: []string{"m1", "m2"},
		Services: []Service{
			{ID: "a", Version: "1", Status: ServiceStopped},
			{ID: "a", Version: "2", Status: ServiceReady},
			{ID: "b", Version: "1", Status: ServiceReady},
		},
		Features: []string{"tone", "vad"},
	}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("normalised (-want +got):\n%s", diff)
	}
}

// TestNormaliseDropsUnusedPairs checks that pairs which AnyPair makes unused do not distinguish two nodes.
func TestNormaliseDropsUnusedPairs(t *testing.T) {
	t.Parallel()
	a := Capability{AnyPair: true, Pairs: []Direction{{"zh", "en"}}}
	b := Capability{AnyPair: true}
	a.Normalise()
	b.Normalise()
	if !a.SameCapability(&b) {
		t.Errorf("they differ (-b +a):\n%s", cmp.Diff(b, a))
	}
}

// TestNilListEqualsEmptyList checks that an absent list and an empty one declare the same.
func TestNilListEqualsEmptyList(t *testing.T) {
	t.Parallel()
	a := Capability{}
	b := Capability{
		ASR: LangSet{}, Semantic: LangSet{}, TTS: LangSet{}, Pairs: []Direction{},
		Models: []string{}, Services: []Service{}, Features: []string{},
	}
	if !a.SameCapability(&b) || !b.SameCapability(&a) {
		t.Error("they differ")
	}
}

// TestEqualComparesEveryField uses reflection, so that a new field cannot be omitted from Equal: the revision depends on
// it, and with it the refusal of reservations on an old revision.
func TestEqualComparesEveryField(t *testing.T) {
	t.Parallel()
	full := func() Capability { return *translator(fillLists) }
	one, same := full(), full()
	if !one.SameCapability(&same) {
		t.Fatalf("two of a kind differ:\n%s", cmp.Diff(one, same))
	}
	for name := range leaves(reflect.ValueOf(&one).Elem(), "Capability") {
		other := full()
		field := leaves(reflect.ValueOf(&other).Elem(), "Capability")[name]
		if field.Kind() == reflect.Uint8 {
			field.SetUint(field.Uint() + 1)
		} else {
			alter(t, field)
		}
		if one.SameCapability(&other) || other.SameCapability(&one) {
			t.Errorf("%s changed and they are still equal", name)
		}
	}
}

func fillLists(c *Capability) {
	c.Models = []string{"m1", "m2"}
	c.Features = []string{"vad"}
	c.Services = []Service{{ID: "asr", Version: "1", Type: "asr", Status: ServiceReady}}
}

func TestEqualComparesEveryFieldOfAService(t *testing.T) {
	t.Parallel()
	base := Capability{Services: []Service{{ID: "asr", Version: "1", Type: "asr", Status: ServiceReady}}}
	for _, s := range []Service{
		{ID: "nmt", Version: "1", Type: "asr", Status: ServiceReady},
		{ID: "asr", Version: "2", Type: "asr", Status: ServiceReady},
		{ID: "asr", Version: "1", Type: "nmt", Status: ServiceReady},
		{ID: "asr", Version: "1", Type: "asr", Status: ServiceStopped},
	} {
		if base.SameCapability(&Capability{Services: []Service{s}}) {
			t.Errorf("%+v is taken for %+v", s, base.Services[0])
		}
	}
}

// TestEqualIgnoresSinceWhenAServiceIsReady: it is not part of what a node declares.
func TestEqualIgnoresSinceWhenAServiceIsReady(t *testing.T) {
	t.Parallel()
	declared := Capability{Services: []Service{{ID: "asr", Status: ServiceReady}}}
	stored := Capability{Services: []Service{{ID: "asr", Status: ServiceReady, ReadySince: 7}}}
	if !declared.SameCapability(&stored) {
		t.Error("they differ")
	}
}

func TestUsableVersions(t *testing.T) {
	t.Parallel()
	c := Capability{Services: []Service{
		{ID: "asr", Version: "1", Status: ServiceReady}, {ID: "asr", Version: "2", Status: ServiceReady},
		{ID: "nmt", Version: "1", Status: ServiceError}, {ID: "nmt", Version: "2", Status: ServiceReady},
	}}
	c.Normalise()
	for _, test := range []struct {
		id, marked string // a service, and what is marked: id@version
		want       bool
	}{
		{"asr", "", true},
		{"asr", "asr@1", true},
		{"nmt", "nmt@1", true},
		{"nmt", "nmt@2", false},
		{"tts", "", false},
	} {
		if got := c.Usable(test.id, func(s *Service) bool { return s.ID+"@"+s.Version == test.marked }); got != test.want {
			t.Errorf("%s with a mark on %q: %v, want %v", test.id, test.marked, got, test.want)
		}
	}
	if c.Usable("asr", func(*Service) bool { return true }) {
		t.Error("a service of which all versions are marked is usable")
	}
}

func drawCapability(t *rapid.T) Capability {
	lang := rapid.SampledFrom([]Lang{"de", "en", "fr", "zh"})
	name := rapid.SampledFrom([]string{"a", "b", "c"})
	langs := rapid.SliceOfN(lang, 0, 5)
	names := rapid.SliceOfN(name, 0, 5)
	direction := rapid.Custom(func(t *rapid.T) Direction { return Direction{lang.Draw(t, "src"), lang.Draw(t, "tgt")} })
	// The version decides the rest, so that no service is declared in two ways at once.
	service := rapid.Custom(func(t *rapid.T) Service {
		s := Service{ID: name.Draw(t, "id"), Version: name.Draw(t, "version"), Status: ServiceReady}
		if s.Version == "b" {
			s.Status = ServiceStopped
		}
		return s
	})
	return Capability{
		ASR: langs.Draw(t, "asr"), Semantic: langs.Draw(t, "semantic"), TTS: langs.Draw(t, "tts"),
		Pairs: rapid.SliceOfN(direction, 0, 6).Draw(t, "pairs"), AnyPair: rapid.Bool().Draw(t, "any"),
		Models: names.Draw(t, "models"), Features: names.Draw(t, "features"),
		Services: rapid.SliceOfN(service, 0, 6).Draw(t, "services"),
	}
}

// TestNormaliseIgnoresOrder checks that a declaration in another order, or with repetitions, is no change.
func TestNormaliseIgnoresOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := drawCapability(t)
		b := Capability{
			ASR: shuffled(t, a.ASR), Semantic: shuffled(t, a.Semantic), TTS: shuffled(t, a.TTS), Pairs: shuffled(t, a.Pairs),
			AnyPair: a.AnyPair, Models: shuffled(t, a.Models), Services: shuffled(t, a.Services), Features: shuffled(t, a.Features),
		}
		a.Normalise()
		b.Normalise()
		if !a.SameCapability(&b) {
			t.Fatalf("they differ:\n%s", cmp.Diff(a, b))
		}
		again := a
		again.Normalise()
		if !again.SameCapability(&a) {
			t.Fatalf("normalising twice gives something else:\n%s", cmp.Diff(a, again))
		}
	})
}

// shuffled returns a copy in another order with one element repeated.
func shuffled[S ~[]E, E any](t *rapid.T, list S) S {
	if len(list) == 0 {
		return list
	}
	twice := append(S{list[len(list)-1]}, list...)
	return rapid.Permutation(twice).Draw(t, "order")
}

// TestNormaliseOrdersServicesThatDifferInStateOnly checks a node that lists one version of a service twice with different
// states: the order does not matter, and repetitions are dropped.
func TestNormaliseOrdersServicesThatDifferInStateOnly(t *testing.T) {
	t.Parallel()
	ready := Service{ID: "asr", Version: "1", Status: ServiceReady}
	stopped := Service{ID: "asr", Version: "1", Status: ServiceStopped}
	typed := Service{ID: "asr", Version: "1", Type: "asr", Status: ServiceReady}
	a := Capability{Services: []Service{ready, stopped, typed}}
	for _, order := range [][]Service{{stopped, ready, typed}, {typed, stopped, ready}, {ready, stopped, ready, typed}} {
		b := Capability{Services: order}
		a.Normalise()
		b.Normalise()
		if !a.SameCapability(&b) {
			t.Errorf("another order is another capability (-want +got):\n%s", cmp.Diff(a.Services, b.Services))
		}
	}
}

func TestServiceState(t *testing.T) {
	t.Parallel()
	c := Capability{Services: []Service{
		{ID: "nmt", Version: "1", Status: ServiceStopped},
		{ID: "asr", Version: "2", Status: ServiceReady},
		{ID: "asr", Version: "1", Status: ServiceDownloading},
		{ID: "asr", Version: "3", Status: ServiceError},
		{ID: "tts", Version: "1", Status: ServiceReady},
		{ID: "nmt", Version: "2", Status: ServiceInstalling},
		{ID: "vad", Status: ServiceVerifying},
	}}
	c.Normalise()
	for id, want := range map[string][2]bool{
		"asr":  {true, true}, // one ready version is enough
		"nmt":  {true, false},
		"tts":  {true, true},
		"vad":  {true, false},
		"as":   {false, false},
		"asr2": {false, false},
		"a":    {false, false}, // before the first
		"zzz":  {false, false}, // after the last
		"":     {false, false},
	} {
		installed, ready := c.ServiceState(id)
		if got := [2]bool{installed, ready}; got != want {
			t.Errorf("ServiceState(%q) = %v, want %v (installed, ready)", id, got, want)
		}
	}
	if installed, ready := (&Capability{}).ServiceState("asr"); installed || ready {
		t.Error("a node without services has one")
	}
}

// TestServiceStateByStatus checks that only a ready service can be used.
func TestServiceStateByStatus(t *testing.T) {
	t.Parallel()
	for status := ServiceReady; status <= ServiceError; status++ {
		c := Capability{Services: []Service{{ID: "asr", Status: status}}}
		installed, ready := c.ServiceState("asr")
		if want := status == ServiceReady; !installed || ready != want {
			t.Errorf("%s: installed %v, ready %v, want true, %v", status, installed, ready, want)
		}
	}
}

func TestHasModelAndFeature(t *testing.T) {
	t.Parallel()
	c := Capability{Models: []string{"m3", "m1"}, Features: []string{"vad", "diarise"}}
	c.Normalise()
	for id, want := range map[string]bool{"m1": true, "m3": true, "m2": false, "M1": false, "": false} {
		if c.HasModel(id) != want {
			t.Errorf("HasModel(%q) = %v, want %v", id, !want, want)
		}
	}
	for name, want := range map[string]bool{"vad": true, "diarise": true, "tone": false, "": false} {
		if c.HasFeature(name) != want {
			t.Errorf("HasFeature(%q) = %v, want %v", name, !want, want)
		}
	}
}

// TestToneFeature checks that tone may be declared as a type or as a feature.
func TestToneFeature(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		node Capability
		want bool
	}{
		{"neither", Capability{}, false},
		{"type", Capability{Types: ServiceTypes{Tone: Yes}}, true},
		{"type is No", Capability{Types: ServiceTypes{Tone: No}}, false},
		{"feature", Capability{Features: []string{"tone"}}, true},
	} {
		if got := c.node.HasFeature("tone"); got != c.want {
			t.Errorf("%s: HasFeature(tone) = %v, want %v", c.name, got, c.want)
		}
	}
	other := Capability{Types: ServiceTypes{ASR: Yes, NMT: Yes, TTS: Yes, Semantic: Yes}}
	if other.HasFeature("tone") || other.HasFeature("asr") {
		t.Error("another type stands for a feature")
	}
}
