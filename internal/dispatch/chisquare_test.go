package dispatch_test

import (
	"math"
	"testing"
)

// chiSquareProbability is the probability that a value of the χ² distribution is x or more: the regularised incomplete gamma function
// Q(degrees/2, x/2), by its series for small values and by its continued fraction for large ones.
func chiSquareProbability(x float64, degrees int) float64 {
	const precision, steps = 1e-14, 10_000
	a, z := float64(degrees)/2, x/2
	if z <= 0 || degrees <= 0 {
		return 1
	}
	logGamma, _ := math.Lgamma(a)
	factor := math.Exp(a*math.Log(z) - z - logGamma)
	if z < a+1 {
		term := 1 / a
		sum := term
		for n := 1; n < steps && term > sum*precision; n++ {
			term *= z / (a + float64(n))
			sum += term
		}
		return 1 - factor*sum
	}
	b := z + 1 - a // the fraction by Lentz's method
	c, d := math.Inf(1), 1/b
	fraction := d
	for n := 1; n < steps; n++ {
		k := float64(n) * (a - float64(n))
		b += 2
		d = 1 / (k*d + b)
		c = b + k/c
		fraction *= c * d
		if math.Abs(c*d-1) < precision {
			break
		}
	}
	return factor * fraction
}

// The function agrees with printed tables, and far outside of them with the normal distribution.
func TestChiSquareProbability(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		x       float64
		degrees int
		want    float64
	}{
		{0, 5, 1},
		{3.841, 1, 0.05},
		{4.351, 5, 0.5},
		{20.515, 5, 0.001},
		{73.402, 40, 0.001},
		{124.342, 100, 0.05},
		{37.3249, 1, 1e-9},
		{390, 5, 4.24e-82},
	} {
		got := chiSquareProbability(c.x, c.degrees)
		if math.Abs(got-c.want) > 0.002*c.want {
			t.Errorf("of %v with %d degrees: %g, want %g", c.x, c.degrees, got, c.want)
		}
	}
}
