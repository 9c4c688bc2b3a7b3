package drill

import (
	"cmp"
	"slices"
	"testing"
)

// span is an interval of time; see journal.Now.
type span struct{ from, to int64 }

// spans is a set of times: spans in order, which neither overlap nor touch.
type spans []span

// unite returns the times that are in at least one of the spans.
func unite(all ...span) spans {
	all = slices.DeleteFunc(slices.Clone(all), func(s span) bool { return s.from >= s.to })
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var out spans
	for _, s := range all {
		if n := len(out); n > 0 && s.from <= out[n-1].to {
			out[n-1].to = max(out[n-1].to, s.to)
		} else {
			out = append(out, s)
		}
	}
	return out
}

// intersect returns the times that are in both sets.
func (a spans) intersect(b spans) spans {
	var out spans
	for i, j := 0, 0; i < len(a) && j < len(b); {
		if s := (span{max(a[i].from, b[j].from), min(a[i].to, b[j].to)}); s.from < s.to {
			out = append(out, s)
		}
		if a[i].to < b[j].to {
			i++
		} else {
			j++
		}
	}
	return out
}

// without returns the times that are not in another set.
func (a spans) without(b spans) spans {
	var gaps spans
	last := int64(0)
	for _, s := range b {
		gaps = append(gaps, span{last, s.from})
		last = s.to
	}
	return a.intersect(unite(append(gaps, span{last, 1<<63 - 1})...))
}

func TestSpans(t *testing.T) {
	t.Parallel()
	a := unite(span{5, 9}, span{1, 3}, span{3, 4}, span{7, 7}, span{20, 30})
	for name, c := range map[string]struct{ got, want spans }{
		"unite":                {a, spans{{1, 4}, {5, 9}, {20, 30}}},
		"intersect":            {a.intersect(spans{{2, 6}, {8, 25}}), spans{{2, 4}, {5, 6}, {8, 9}, {20, 25}}},
		"intersect with none":  {a.intersect(nil), nil},
		"without":              {a.without(spans{{2, 6}, {22, 24}}), spans{{1, 2}, {6, 9}, {20, 22}, {24, 30}}},
		"without what is none": {a.without(nil), a},
		"without everything":   {a.without(spans{{0, 40}}), nil},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
}
