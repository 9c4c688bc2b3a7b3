package stats

import (
	"cmp"
	"maps"
	"slices"

	"github.com/lingua-scheduler/lingua/internal/health"
)

// counts counts by name.
type counts map[string]int64

// add adds n to a name. A new name beyond the limit is counted as other.
func (c counts) add(name string, n int64, limit int) {
	if _, known := c[name]; !known && len(c) >= limit {
		name = health.Other
	}
	c[name] += n
}

// largest returns the names with the largest counts, in descending order, and the sum of all others.
func (c counts) largest(limit int) (names []string, rest int64) {
	for name := range c {
		if name != health.Other {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(c[b], c[a]), cmp.Compare(a, b)) })
	rest = c[health.Other]
	if len(names) > limit {
		for _, name := range names[limit:] {
			rest += c[name]
		}
		names = names[:limit]
	}
	return names, rest
}

func (c counts) sum() (n int64) {
	for _, count := range c {
		n += count
	}
	return n
}

const (
	// maxRefused bounds the directions of refused requests: anybody who may ask can ask for any direction.
	maxRefused = 50
)

// tally counts what became of requests, by name.
type tally struct {
	Directions counts `json:"directions,omitempty"` // jobs that ended, by direction
	Outcomes   counts `json:"outcomes,omitempty"`   // the same jobs, by state
	Reasons    counts `json:"reasons,omitempty"`    // those that were not done, by reason
	Refused    counts `json:"refused,omitempty"`    // requests that were refused, by direction
	Refusals   counts `json:"refusals,omitempty"`   // the same requests, by code
}

func newTally() tally {
	return tally{Directions: counts{}, Outcomes: counts{}, Reasons: counts{}, Refused: counts{}, Refusals: counts{}}
}

// complete makes the counts that a decoded tally does not have.
func (t *tally) complete() {
	for _, c := range []*counts{&t.Directions, &t.Outcomes, &t.Reasons, &t.Refused, &t.Refusals} {
		if *c == nil {
			*c = counts{}
		}
	}
}

// each calls fn with each count of t and the same one of u.
func (t tally) each(u tally, fn func(a, b counts, limit int)) {
	fn(t.Directions, u.Directions, health.MaxNames)
	fn(t.Outcomes, u.Outcomes, health.MaxNames)
	fn(t.Reasons, u.Reasons, health.MaxNames)
	fn(t.Refused, u.Refused, maxRefused)
	fn(t.Refusals, u.Refusals, health.MaxNames)
}

// add adds another tally.
func (t tally) add(u tally) {
	t.each(u, func(a, b counts, limit int) {
		for name, n := range b {
			a.add(name, n, limit)
		}
	})
}

// since returns what was counted after an earlier tally of the same counter. A name that the earlier one does not have is new.
func (t tally) since(earlier tally) tally {
	diff := newTally()
	diff.each(t, func(a, b counts, _ int) { maps.Copy(a, b) })
	diff.each(earlier, func(a, b counts, _ int) {
		for name, n := range b {
			if a[name] -= n; a[name] <= 0 {
				delete(a, name)
			}
		}
	})
	return diff
}
