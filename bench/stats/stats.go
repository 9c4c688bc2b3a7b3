// Package stats summarises measurements of the benchmarks.
package stats

import (
	"cmp"
	"slices"
)

// Median returns the median of a list, which must not be empty.
func Median[T cmp.Ordered](list []T) T { return Percentile(list, 0.5) }

// Percentile returns the value below which the share p of a list is. The list must not be empty.
func Percentile[T cmp.Ordered](list []T, p float64) T {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}
