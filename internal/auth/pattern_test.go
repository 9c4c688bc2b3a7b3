package auth_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/core"
)

func TestPatternsOverlap(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"*", "gpu-1", true}, {"gpu-*", "gpu-1", true}, {"gpu-*", "cpu-*", false}, {"a-*", "*-b", true}, {"a-?", "a-12", false},
		{"a-[12]", "a-[23]", true}, {"a-[12]", "a-[34]", false}, {"a-[^1]", "a-1", false}, {"a-[^1]", "a-2", true},
		{"a*b*c", "a-x", false}, {"a*b*c", "a*", true}, {"a", "a", true}, {"a", "ab", false}, {"**", "x", true}, {"a*a", "a", false},
	} {
		if auth.PatternsOverlap(c.a, c.b) != c.want || auth.PatternsOverlap(c.b, c.a) != c.want {
			t.Errorf("%s and %s: want %v", c.a, c.b, c.want)
		}
	}
}

// TestOverlapIsFound compares with a search over all short names of a small alphabet.
func TestOverlapIsFound(t *testing.T) {
	t.Parallel()
	element := rapid.SampledFrom([]string{"a", "b", "-", "*", "?", "[ab]", "[^a]", "[a-b]"})
	pattern := rapid.Custom(func(t *rapid.T) string {
		text := ""
		for _, e := range rapid.SliceOfN(element, 1, 5).Draw(t, "elements") {
			text += e
		}
		return text
	})
	var names []core.NodeID
	for length, last := 0, []core.NodeID{""}; length < 6; length++ {
		var next []core.NodeID
		for _, name := range last {
			next = append(next, name+"a", name+"b", name+"-")
		}
		names, last = append(names, next...), next
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := pattern.Draw(t, "a"), pattern.Draw(t, "b")
		found := core.NodeID("")
		for _, name := range names {
			if auth.MatchNode(a, name) && auth.MatchNode(b, name) {
				found = name
				break
			}
		}
		overlap := auth.PatternsOverlap(a, b)
		if found != "" && !overlap {
			t.Fatalf("%s matches %s and %s, which are said not to overlap", found, a, b)
		}
		// An overlap may need a character outside the alphabet, or a longer name.
		if found == "" && overlap && !auth.PatternsOverlap(b, a) {
			t.Fatalf("%s and %s overlap one way only", a, b)
		}
	})
}
