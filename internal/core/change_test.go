package core

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestChangeOfEveryField: each field of a declaration can be changed alone, also those that are added later.
func TestChangeOfEveryField(t *testing.T) {
	t.Parallel()
	var none Declaration
	for name := range leaves(reflect.ValueOf(&none).Elem(), "") {
		if name == ".SecretHash" || name == ".Capability.AnyPair" { // the registry makes it; it follows from the pairs
			continue
		}
		var c Change
		alter(t, leaves(reflect.ValueOf(&c.Declaration).Elem(), "")[name])
		var n Node
		if c.Apply(&n.Declaration); !cmp.Equal(c.Declaration, n.Declaration) {
			t.Errorf("%s is not changed:\n%s", name, cmp.Diff(c.Declaration, n.Declaration))
		}
	}
}

// TestChangeToZero: each field that may be zero becomes so if the change says that it contains it, and only then.
func TestChangeToZero(t *testing.T) {
	t.Parallel()
	var none, full Declaration
	fields := leaves(reflect.ValueOf(&full).Elem(), "")
	for name := range fields {
		alter(t, fields[name])
	}
	got := full
	if new(Change).Apply(&got); !cmp.Equal(full, got) {
		t.Errorf("nothing is changed (-want +got):\n%s", cmp.Diff(full, got))
	}
	has := reflect.TypeFor[Fields]()
	for i := range has.NumField() {
		name := has.Field(i).Name
		var c Change
		reflect.ValueOf(&c.Has).Elem().Field(i).SetBool(true)
		got, want := full, full
		reflect.ValueOf(&want).Elem().FieldByName(name).Set(reflect.ValueOf(none).FieldByName(name))
		if c.Apply(&got); !cmp.Equal(want, got) {
			t.Errorf("%s (-want +got):\n%s", name, cmp.Diff(want, got))
		}
	}
}

func TestChangeIsFull(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Change)
		want   bool
	}{
		"everything":   {func(*Change) {}, true},
		"no slots":     {func(c *Change) { c.MaxJobs, c.Has.MaxJobs = 0, true }, true},
		"no languages": {func(c *Change) { c.Semantic = nil }, false},
		"no maximum":   {func(c *Change) { c.MaxJobs = 0 }, false},
		"no callback":  {func(c *Change) { c.Callback = "" }, false},
		"empty URL":    {func(c *Change) { c.Callback, c.Has.Callback = "", true }, false},
	} {
		full := Change{Declaration: Declaration{MaxJobs: 1, Capability: Capability{Semantic: LangSet{"en"}}, Callback: "http://node"}}
		if c.change(&full); full.IsFull() != c.want {
			t.Errorf("%s: full %v, want %v", name, full.IsFull(), c.want)
		}
	}
}

func TestChangeDeclaresDefaults(t *testing.T) {
	t.Parallel()
	pairs := []Direction{{Src: "en", Tgt: "de"}}
	for name, c := range map[string]struct {
		change, want Declaration
	}{
		"nothing": {Declaration{}, Declaration{Health: HealthReady, Capability: Capability{AnyPair: true}}},
		"pairs": {
			Declaration{Capability: Capability{Pairs: pairs}}, Declaration{Health: HealthReady, Capability: Capability{Pairs: pairs}},
		},
		"health": {Declaration{Health: HealthDraining}, Declaration{Health: HealthDraining, Capability: Capability{AnyPair: true}}},
	} {
		change := Change{Declaration: c.change}
		if diff := cmp.Diff(Node{ID: "a", Declaration: c.want}, change.Declare("a")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
