package pick_test

import (
	"math"
	"testing"
)

// checkUniform fails when counts differ from each other by more than chance would make them differ once in a
// thousand experiments. Every experiment here draws from a seeded generator, so it has one outcome for good.
func checkUniform[K comparable](t *testing.T, what string, counts map[K]int, cells int) {
	t.Helper()
	total := 0
	for _, n := range counts {
		total += n
	}
	if len(counts) != cells {
		t.Errorf("%s: %d different outcomes, want %d", what, len(counts), cells)
		return
	}
	expected := float64(total) / float64(cells)
	chi := 0.0
	for _, n := range counts {
		chi += (float64(n) - expected) * (float64(n) - expected) / expected
	}
	if most := chiSquareLimit(cells - 1); chi > most {
		t.Errorf("%s: χ² = %.1f over %d outcomes of %d draws, want at most %.1f: %v", what, chi, cells, total, most, counts)
	}
}

// chiSquareLimit is the 99.9th percentile of the χ² distribution, by Wilson and Hilferty's approximation.
func chiSquareLimit(degrees int) float64 {
	const z = 3.0902
	k := float64(degrees)
	return k * math.Pow(1-2/(9*k)+z*math.Sqrt(2/(9*k)), 3)
}

// The yardstick itself, against the printed tables: a coarse one will do.
func TestChiSquareLimit(t *testing.T) {
	t.Parallel()
	for degrees, want := range map[int]float64{4: 18.47, 19: 43.82, 49: 85.35, 119: 173.6} {
		if got := chiSquareLimit(degrees); math.Abs(got-want) > 0.02*want {
			t.Errorf("the limit for %d degrees of freedom is %.2f, want %.2f", degrees, got, want)
		}
	}
}
