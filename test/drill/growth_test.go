package drill

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/test/clustertest"
)

// growthMonitor takes samples of resource use between faults, and finds resources that grow.
type growthMonitor struct {
	enabled bool
	samples []sample
}

// sample is the resource use at one time.
type sample struct {
	at      time.Time
	values  map[string]float64
	tooMany bool // there are more connections than clients
}

// growthTolerance is by how much a resource may be larger at the end than at the beginning: a share of it, and a constant.
// Resources that are not listed are not checked.
var growthTolerance = map[string]struct{ part, plus float64 }{
	"go_goroutines":                 {0.25, 100},
	"process_resident_memory_bytes": {0.25, 32 << 20},
	"process_open_fds":              {0.25, 50},
	"lingua_audio_held_bytes":       {1, 1 << 20},
	"redis keys":                    {0.25, 200},
	"pending":                       {0, 20},
}

// takeSample takes a sample of the instance that no fault hits. The other instances are restarted too often.
func (m *growthMonitor) takeSample(c *testCluster) {
	if !m.enabled {
		return
	}
	r := sample{at: time.Now(), values: make(map[string]float64)}
	// A busy machine may answer slowly, which is not a violation.
	c.Must(clustertest.EventuallyEvery(c.TB.Context(), time.Second, 30*time.Second, func() error { return r.read(c) }))
	m.samples = append(m.samples, r)
	c.TB.Logf("%s %s", r.at.Format(time.TimeOnly), r)
}

// connectionLimits is how many connections one instance can have at most: those of all nodes and sessions.
func (c *testCluster) connectionLimits() map[string]float64 {
	nodes, sessions := float64(c.nodeCount), float64(*drillSessions)
	return map[string]float64{"lingua_connected_nodes": nodes, "lingua_sessions": sessions, "lingua_socket_connections": nodes + sessions}
}

// read reads the resource use.
func (r *sample) read(c *testCluster) error {
	limits := c.connectionLimits()
	metrics, err := c.Instances[0].Metrics(c.TB.Context())
	if err != nil {
		return err
	}
	for name, v := range metrics {
		_, checked := growthTolerance[name]
		if limit, bounded := limits[name]; checked || bounded {
			r.values[name] = v
			r.tooMany = r.tooMany || bounded && v > limit
		}
	}
	size, err := c.Redis.KeyCount()
	if err != nil {
		return err
	}
	b, err := c.Redis.Backlog()
	if err != nil {
		return err
	}
	r.values["redis keys"], r.values["pending"] = float64(size), float64(b.Pending)
	return nil
}

// String returns the sample as one line.
func (r sample) String() string {
	var cells []string
	for name, v := range r.values {
		cells = append(cells, fmt.Sprintf("%s %.0f", name, v))
	}
	slices.Sort(cells)
	return strings.Join(cells, ", ")
}

const resourceGrowth = "a resource that grows"

// minSamples is the number of samples from which growth can be seen. The first quarter is warm-up.
const minSamples = 12

// growth compares the medians of the second and the last quarter.
func (m *growthMonitor) growth() []violation {
	var violations []violation
	for i, r := range m.samples {
		if i > 0 && r.tooMany && m.samples[i-1].tooMany { // a lost connection may not be noticed yet
			violations = append(violations, violation{resourceGrowth, fmt.Sprintf("there are more connections than clients: %v, and before %v", r, m.samples[i-1])})
		}
	}
	n := len(m.samples)
	if n < minSamples {
		return violations
	}
	for name, s := range growthTolerance {
		early, late := median(m.samples[n/4:n/2], name), median(m.samples[n*3/4:], name)
		if late > early*(1+s.part)+s.plus {
			violations = append(violations, violation{resourceGrowth, fmt.Sprintf("%s was %.0f and is %.0f (medians of the second and the last quarter of %d samples)", name, early, late, n)})
		}
	}
	return violations
}

func median(series []sample, name string) float64 {
	var list []float64
	for _, r := range series {
		list = append(list, r.values[name])
	}
	slices.Sort(list)
	return list[len(list)/2]
}

func TestGrowthIsDetected(t *testing.T) {
	t.Parallel()
	series := func(size func(n int) float64) *growthMonitor {
		m := &growthMonitor{enabled: true}
		for n := range 20 {
			m.samples = append(m.samples, sample{values: map[string]float64{"go_goroutines": size(n)}})
		}
		return m
	}
	for name, c := range map[string]struct {
		m    *growthMonitor
		want int
	}{
		"steady":                     {series(func(int) float64 { return 300 }), 0},
		"warming up":                 {series(func(n int) float64 { return float64(min(300, 100*n)) }), 0},
		"up and down":                {series(func(n int) float64 { return float64(300 + 200*(n%2)) }), 0},
		"growing":                    {series(func(n int) float64 { return float64(300 + 100*n) }), 1},
		"too many connections once":  {&growthMonitor{samples: []sample{{}, {tooMany: true}, {}}}, 0},
		"too many connections twice": {&growthMonitor{samples: []sample{{}, {tooMany: true}, {tooMany: true}}}, 1},
		"too few samples":            {&growthMonitor{samples: series(func(n int) float64 { return float64(1000 * n) }).samples[:5]}, 0},
	} {
		if got := c.m.growth(); len(got) != c.want {
			t.Errorf("%s: %v, want %d violations", name, got, c.want)
		}
	}
}
