package core

import (
	"encoding/json"
	"testing"
)

func TestSessionRefTextRoundTrip(t *testing.T) {
	t.Parallel()
	for _, ref := range []SessionRef{
		{SessionKey{"acme", "room-1"}, NewSessionIncarnation()},
		{SessionKey{"", "a:b:c"}, "x"}, // an instance without credentials has no tenants
		{},
	} {
		text, err := json.Marshal(ref)
		if err != nil {
			t.Fatal(err)
		}
		var got SessionRef
		if err := json.Unmarshal(text, &got); err != nil || got != ref {
			t.Errorf("%s became %+v, %v", text, got, err)
		}
	}
}

func TestSessionRefParseErrors(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "room-1", "a/b", "a/b/c/d"} {
		var got SessionRef
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was read as %+v", text, got)
		}
	}
}

// TestSessionRefsOfDifferentPartsDiffer checks that no two sessions have the same text: it is a Redis key and part of audio
// references.
func TestSessionRefsOfDifferentPartsDiffer(t *testing.T) {
	t.Parallel()
	a := SessionRef{SessionKey{"a", "b:c"}, "d"}
	for _, b := range []SessionRef{
		{SessionKey{"a:b", "c"}, "d"}, {SessionKey{"", "a:b:c"}, "d"}, {SessionKey{"a", "b"}, "c:d"},
	} {
		if a.String() == b.String() {
			t.Errorf("%+v and %+v are both %s", a, b, a)
		}
	}
}
