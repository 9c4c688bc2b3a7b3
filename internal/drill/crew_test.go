package drill

import (
	"errors"
	"time"
)

// crew is nodes that share a process, which may be killed and started again: the same nodes, in another life.
type crew struct {
	o     orders
	lives []*driver
}

// start has all of them connect.
func (w *crew) start(c *cluster) error {
	c.tb.Helper()
	o := w.o
	o.Life = len(w.lives)
	d := startDriver(c.tb, "nodes", c.dir, o)
	w.lives = append(w.lives, d)
	return d.await(startWithin)
}

// kill ends all of them in the middle of their work.
func (w *crew) kill() { w.now().proc.End() }

func (w *crew) now() *driver { return w.lives[len(w.lives)-1] }

// home takes them home and returns what they saw in all their lives.
func (w *crew) home(within time.Duration) ([]entry, error) {
	var all []entry
	var errs []error
	for _, d := range w.lives[:len(w.lives)-1] {
		some, err := readJournal(d.path)
		all, errs = append(all, some...), append(errs, err)
	}
	some, err := w.now().home(within)
	return append(all, some...), errors.Join(append(errs, err)...)
}

// crewsOf divides so many nodes into those that live on and those that die in some drills.
func crewsOf(nodes int, o orders) (steady, mortals *crew) {
	few := max(1, nodes/4)
	named := func(name string, count int) *crew {
		w := &crew{o: o}
		w.o.Name, w.o.Count = name, count
		return w
	}
	return named("node", nodes-few), named("mortal", few)
}
