package drill

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// watch is what a soak looks at: a row whenever it is calm.
type watch struct {
	on   bool
	rows []row
}

// row is the size of things at one moment.
type row struct {
	at     time.Time
	values map[string]float64
	over   bool // more are connected than there are
}

// slack is how much each may be larger at the end than at the beginning without being said to grow: a part of it, and so
// much on top. What is not named here is not judged.
var slack = map[string]struct{ part, plus float64 }{
	"go_goroutines":                 {0.25, 100},
	"process_resident_memory_bytes": {0.25, 32 << 20},
	"process_open_fds":              {0.25, 50},
	"lingua_audio_held_bytes":       {1, 1 << 20},
	"redis keys":                    {0.25, 200},
	"pending":                       {0, 20},
}

// look adds a row. The one instance that no fault strikes stands for all: the others begin anew again and again.
func (w *watch) look(c *cluster) {
	if !w.on {
		return
	}
	r := row{at: time.Now(), values: make(map[string]float64)}
	// A machine that is busy with other things may be slow to answer; that is no violation.
	c.need(eventuallyEvery(c.tb.Context(), time.Second, 30*time.Second, func() error { return r.read(c) }))
	w.rows = append(w.rows, r)
	c.tb.Logf("%s %s", r.at.Format(time.TimeOnly), r)
}

// crowd is who may be connected with one instance at most: everybody there is.
func (c *cluster) crowd() map[string]float64 {
	nodes, people := float64(c.nodeCount), float64(*drillSessions)
	return map[string]float64{"lingua_connected_nodes": nodes, "lingua_sessions": people, "lingua_socket_connections": nodes + people}
}

// read takes the sizes.
func (r *row) read(c *cluster) error {
	crowd := c.crowd()
	gauges, err := c.instances[0].gauges(c.tb.Context())
	if err != nil {
		return err
	}
	for name, v := range gauges {
		_, judged := slack[name]
		if most, bounded := crowd[name]; judged || bounded {
			r.values[name] = v
			r.over = r.over || bounded && v > most
		}
	}
	size, err := c.redis.size()
	if err != nil {
		return err
	}
	b, err := c.redis.backlog()
	if err != nil {
		return err
	}
	r.values["redis keys"], r.values["pending"] = float64(size), float64(b.pending)
	return nil
}

// String is a row as a line.
func (r row) String() string {
	var cells []string
	for name, v := range r.values {
		cells = append(cells, fmt.Sprintf("%s %.0f", name, v))
	}
	slices.Sort(cells)
	return strings.Join(cells, ", ")
}

const grown = "something that grows"

// enough rows say something about growth: in fewer, the first are still warming up.
const enough = 12

// growth compares the second quarter with the last, by their medians: the first quarter is warming up.
func (w *watch) growth() []violation {
	var broken []violation
	for i, r := range w.rows {
		if i > 0 && r.over && w.rows[i-1].over { // a connection that was just lost may not be missed yet
			broken = append(broken, violation{grown, fmt.Sprintf("more are connected than there are: %v, and before %v", r, w.rows[i-1])})
		}
	}
	n := len(w.rows)
	if n < enough {
		return broken
	}
	for name, s := range slack {
		early, late := median(w.rows[n/4:n/2], name), median(w.rows[n*3/4:], name)
		if late > early*(1+s.part)+s.plus {
			broken = append(broken, violation{grown, fmt.Sprintf("%s was %.0f and is %.0f (medians of the second and the last quarter of %d rows)", name, early, late, n)})
		}
	}
	return broken
}

func median(rows []row, name string) float64 {
	var list []float64
	for _, r := range rows {
		list = append(list, r.values[name])
	}
	slices.Sort(list)
	return list[len(list)/2]
}
