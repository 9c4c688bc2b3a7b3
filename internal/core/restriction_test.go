package core

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestRestrictionKeys: two restrictions have the same key exactly if they have the same region and the same names, however often and in
// whatever order these are listed, and whatever characters they have.
func TestRestrictionKeys(t *testing.T) {
	t.Parallel()
	text := rapid.StringOfN(rapid.SampledFrom([]rune{0, 1, '0', '1', ':', ';', 'a'}), 0, 4, -1)
	names := rapid.SliceOfN(text, 0, 3)
	restriction := rapid.Custom(func(t *rapid.T) Restriction {
		return Restriction{Region: text.Draw(t, "region"), Services: names.Draw(t, "services"), Models: names.Draw(t, "models")}
	})
	same := func(a, b []string) bool {
		return slices.Equal(slices.Compact(slices.Sorted(slices.Values(a))), slices.Compact(slices.Sorted(slices.Values(b))))
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := restriction.Draw(t, "a"), restriction.Draw(t, "b")
		if rapid.Bool().Draw(t, "repeat") {
			b = Restriction{Region: a.Region, Services: slices.Concat(a.Services, a.Services), Models: slices.Clone(a.Models)}
			slices.Reverse(b.Models)
		}
		want := a.Region == b.Region && same(a.Services, b.Services) && same(a.Models, b.Models)
		if got := a.Key() == b.Key(); got != want {
			t.Fatalf("%+v and %+v have the same key: %t, want %t", a, b, got, want)
		}
	})
}

// TestRestrictionKeysOfOtherLists: parts that a separator would join are told apart.
func TestRestrictionKeysOfOtherLists(t *testing.T) {
	t.Parallel()
	keys := make(map[string]Restriction)
	for _, r := range []Restriction{
		{Region: "eu"}, {Services: []string{"eu"}}, {Models: []string{"eu"}}, {Services: []string{"a", "b"}}, {Services: []string{"a"}, Models: []string{"b"}},
		{Services: []string{"a\x01b"}}, {Services: []string{"a\x01\x00b"}}, {Region: "\x00a\x01"}, {Services: []string{"a" + strings.Repeat("b", 10)}}, {Region: "1:a"},
		{Region: "a1;\x01b"}, {Region: "a", Services: []string{"b0;"}},
	} {
		if other, taken := keys[r.Key()]; taken {
			t.Errorf("%+v has the key of %+v", r, other)
		}
		keys[r.Key()] = r
	}
}
