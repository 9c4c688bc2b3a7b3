package telemetry

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// directions makes n directions, the first the least busy.
func directions(n int) []Direction {
	all := make([]Direction, n)
	for i := range all {
		all[i] = Direction{Name: fmt.Sprintf("l%03d→en", i), InFlight: i, Capacity: 10 * i, Used: 3 * i}
	}
	return all
}

func total(all []Direction) (inFlight, capacity int) {
	for _, d := range all {
		inFlight += d.InFlight
		capacity += d.Capacity
	}
	return inFlight, capacity
}

func TestMergeRest(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, maxDirections - 1, maxDirections, maxDirections + 1, maxDirections + 2, 1000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			all := directions(n)
			wantInFlight, wantCapacity := total(all)
			got := mergeRest(all)

			want := directions(n)
			slices.Reverse(want)
			if n > maxDirections {
				rest := Direction{Name: "other"}
				rest.InFlight, rest.Capacity = total(want[maxDirections:])
				rest.Used = 3 * rest.InFlight
				want = append(want[:maxDirections:maxDirections], rest)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("bounded (-want +got):\n%s", diff)
			}
			// A sum over the label stays the same.
			if inFlight, capacity := total(got); inFlight != wantInFlight || capacity != wantCapacity {
				t.Errorf("adds up to %d in flight of %d, want %d of %d", inFlight, capacity, wantInFlight, wantCapacity)
			}
		})
	}
}

// TestMergeRestIgnoresOrder checks that the choice of directions does not depend on their order, which is that of a map.
func TestMergeRestIgnoresOrder(t *testing.T) {
	t.Parallel()
	tied := func() []Direction {
		all := directions(3 * maxDirections)
		for i := range all {
			all[i].InFlight, all[i].Capacity = 0, i%2
		}
		return all
	}
	want := mergeRest(tied())
	reversed := tied()
	slices.Reverse(reversed)
	if diff := cmp.Diff(want, mergeRest(reversed)); diff != "" {
		t.Errorf("in another order (-want +got):\n%s", diff)
	}
	// Of those without jobs the larger come first.
	if got := want[0]; got.Capacity != 1 || got.Name != "l001→en" {
		t.Errorf("the first is %+v", got)
	}
}

func TestDirectionsCollector(t *testing.T) {
	t.Parallel()
	now := []Direction{{Name: "zh→en", InFlight: 2, Capacity: 8, Used: 3}, {Name: "en→zh", Capacity: 4}}
	reg := prometheus.NewPedanticRegistry() // also holds what is collected against what was described
	reg.MustRegister(NewDirections(func() []Direction { return slices.Clone(now) }))

	_, series := gather(t, reg)
	want := map[string]float64{
		"lingua_jobs_in_flight{direction=zh→en}": 2, "lingua_capacity_slots{direction=zh→en}": 8, "lingua_used_slots{direction=zh→en}": 3,
		"lingua_jobs_in_flight{direction=en→zh}": 0, "lingua_capacity_slots{direction=en→zh}": 4, "lingua_used_slots{direction=en→zh}": 0,
	}
	if diff := cmp.Diff(want, series); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}

	// A direction that is no longer requested is gone at the next scrape.
	now = now[1:]
	_, series = gather(t, reg)
	want = map[string]float64{"lingua_jobs_in_flight{direction=en→zh}": 0, "lingua_capacity_slots{direction=en→zh}": 4, "lingua_used_slots{direction=en→zh}": 0}
	if diff := cmp.Diff(want, series); diff != "" {
		t.Errorf("series afterwards (-want +got):\n%s", diff)
	}
}

func TestDirectionsCollectorIsBounded(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(NewDirections(func() []Direction { return directions(5000) }))
	_, series := gather(t, reg)
	if want := 3 * (maxDirections + 1); len(series) != want {
		t.Errorf("there are %d series, want %d", len(series), want)
	}
	others := 0
	for name := range series {
		if strings.Contains(name, "direction=other") {
			others++
		}
	}
	if others != 3 {
		t.Errorf("there are %d series for the rest, want one of each metric", others)
	}
}

// TestDirectionsCanBeRegistered checks that the collector fits beside the other metrics.
func TestDirectionsCanBeRegistered(t *testing.T) {
	t.Parallel()
	m := New()
	if err := m.Registry.Register(NewDirections(func() []Direction { return directions(3) })); err != nil {
		t.Fatal(err)
	}
	families, _ := gather(t, m.Registry)
	want := metric{Name: "lingua_jobs_in_flight", Kind: "GAUGE", Labels: []string{"direction"}}
	if diff := cmp.Diff(want, families["lingua_jobs_in_flight"]); diff != "" {
		t.Errorf("in flight (-want +got):\n%s", diff)
	}
}
