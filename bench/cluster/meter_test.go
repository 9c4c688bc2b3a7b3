package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/redistest"
)

// expense is what one thing costs Redis.
type expense struct {
	what     string
	commands float64            // with those that scripts call
	by       map[string]float64 // the same by name
	most     float64            // that it may cost
}

// scripts is how many of the commands were scripts: what somebody may wait for.
func (e *expense) scripts() float64 { return e.by["evalsha"] + e.by["evalsha_ro"] }

// String names what was called most.
func (e *expense) String() string {
	names := slices.SortedFunc(maps.Keys(e.by), func(a, b string) int {
		if e.by[a] != e.by[b] {
			return int(1000 * (e.by[b] - e.by[a]))
		}
		return strings.Compare(a, b)
	})
	var text []string
	for _, name := range names[:min(len(names), 9)] {
		if e.by[name] >= 0.05 {
			text = append(text, fmt.Sprintf("%s %.1f", name, e.by[name]))
		}
	}
	return strings.Join(text, ", ")
}

// meter reads what Redis does.
type meter struct {
	server *redistest.Server
	idle   map[string]float64 // commands a second while nothing happens
}

// read counts the commands so far, but for the meter's own.
func (m *meter) read() map[string]int64 {
	stats := m.server.CommandStats()
	delete(stats, "info")
	return stats
}

// rest measures what happens while nothing does.
func (m *meter) rest(tb testing.TB, during time.Duration) {
	m.idle = nil
	before, began := m.read(), time.Now()
	backoff.Sleep(tb.Context(), during)
	took := time.Since(began).Seconds()
	m.idle = m.since(before, began).by
	for name := range m.idle {
		m.idle[name] /= took
	}
}

// since is what was done since then, without what is done anyway.
func (m *meter) since(before map[string]int64, began time.Time) expense {
	e := expense{by: make(map[string]float64)}
	took := time.Since(began).Seconds()
	for name, n := range m.read() {
		if d := float64(n-before[name]) - m.idle[name]*took; d > 0 {
			e.by[name] = d
			e.commands += d
		}
	}
	return e
}

// of measures something that is done so many times.
func (m *meter) of(what string, most float64, times int, do func()) expense {
	before, began := m.read(), time.Now()
	do()
	e := m.since(before, began)
	e.what, e.most, e.commands = what, most, e.commands/float64(times)
	for name := range e.by {
		e.by[name] /= float64(times)
	}
	return e
}
