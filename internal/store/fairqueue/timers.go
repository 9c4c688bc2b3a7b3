package fairqueue

import (
	"cmp"
	"slices"
)

// timer is something that is done at a time: the first character of its name says what.
type timer struct {
	at   int64
	name string
}

// The kinds of timers. An instance has one, an offer has one, and so has everything that will be forgotten.
const (
	timerOffer    = "O"
	timerFlow     = "F"
	timerClass    = "K"
	timerTenant   = "T"
	timerInstance = "I"
)

// timers is a set of timers, ordered by time and name.
type timers struct {
	byName map[string]int64
	sorted []timer
}

func compareTimers(a, b timer) int {
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.name, b.name))
}

// set sets a timer, instead of an earlier one of the same name.
func (t *timers) set(name string, at int64) {
	t.remove(name)
	if t.byName == nil {
		t.byName = make(map[string]int64)
	}
	t.byName[name] = at
	i, _ := slices.BinarySearchFunc(t.sorted, timer{at, name}, compareTimers)
	t.sorted = slices.Insert(t.sorted, i, timer{at, name})
}

// setNew sets a timer, unless there is one of the same name.
func (t *timers) setNew(name string, at int64) {
	if _, exists := t.byName[name]; !exists {
		t.set(name, at)
	}
}

func (t *timers) remove(name string) {
	at, exists := t.byName[name]
	if !exists {
		return
	}
	delete(t.byName, name)
	i, _ := slices.BinarySearchFunc(t.sorted, timer{at, name}, compareTimers)
	t.sorted = slices.Delete(t.sorted, i, i+1)
}

// due returns up to MaxTimers timers whose time has come.
func (t *timers) due(now int64) []timer {
	n := 0
	for n < len(t.sorted) && n < MaxTimers && t.sorted[n].at <= now {
		n++
	}
	return slices.Clone(t.sorted[:n])
}
