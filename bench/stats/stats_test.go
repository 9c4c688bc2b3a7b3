package stats

import "testing"

func TestPercentile(t *testing.T) {
	t.Parallel()
	list := []int{5, 1, 4, 2, 3}
	for p, want := range map[float64]int{0: 1, 0.5: 3, 0.99: 5, 1: 5} {
		if got := Percentile(list, p); got != want {
			t.Errorf("percentile %v is %d, want %d", p, got, want)
		}
	}
	if got := Median([]float64{2, 1}); got != 2 {
		t.Errorf("the median of two values is %v, want the upper one", got)
	}
}
