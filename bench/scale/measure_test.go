package scale

import (
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// outcome is how an utterance has ended.
type outcome uint8

const (
	done outcome = iota
	expired
	refusedCannotBeMet
	refusedQueueFull
	outcomes
)

// counts is what happened to utterances.
type counts struct {
	sent, placed, waited int
	ended                [outcomes]int
	waits                *hdrhistogram.Histogram // of those that were placed, in milliseconds
}

func newCounts() counts { return counts{waits: hdrhistogram.New(1, 2*waitLimit, 2)} }

func (c *counts) refused() int {
	return c.ended[expired] + c.ended[refusedCannotBeMet] + c.ended[refusedQueueFull]
}

func (c *counts) add(other *counts) {
	c.sent, c.placed, c.waited = c.sent+other.sent, c.placed+other.placed, c.waited+other.waited
	for i := range c.ended {
		c.ended[i] += other.ended[i]
	}
	c.waits.Merge(other.waits)
}

// usage is how many slots were there and taken, summed over samples.
type usage struct{ taken, slots, samples int }

// seconds returns for how long samples were taken.
func (u *usage) seconds() float64 { return float64(u.samples) * tickInterval / 1000 }

// binsPerHour is how finely the plot shows the day.
const binsPerHour = 20

// measurements is what is measured of a day.
type measurements struct {
	phase    int        // the current one
	bin      int        // the current one
	phases   [][]counts // by phase and tenant
	usage    []usage    // by phase
	bins     [][]counts // by time and tenant
	binUsage []usage
	fairness fairness
	retried  int
	returned int // offers that could not be used
	wall     time.Duration
}

func newMeasurements(windowSlots int) *measurements {
	m := &measurements{
		fairness: newFairness(windowSlots),
		phases:   make([][]counts, len(phases)), usage: make([]usage, len(phases)),
		bins: make([][]counts, int(day)*binsPerHour), binUsage: make([]usage, int(day)*binsPerHour),
	}
	for _, lists := range [][][]counts{m.phases, m.bins} {
		for i := range lists {
			for range tenantPlans {
				lists[i] = append(lists[i], newCounts())
			}
		}
	}
	return m
}

// sample counts the slots that are taken.
func (m *measurements) sample(hour float64, taken, slots int) {
	m.phase = phaseAt(hour)
	m.bin = min(int(hour*binsPerHour), len(m.bins)-1)
	for _, u := range []*usage{&m.usage[m.phase], &m.binUsage[m.bin]} {
		u.taken, u.slots, u.samples = u.taken+taken, u.slots+slots, u.samples+1
	}
}

// of returns where an utterance is counted: by when it was said in the table, by the time in the plot.
func (m *measurements) of(u *utterance) [2]*counts {
	return [2]*counts{&m.phases[u.phase][u.tenant], &m.bins[m.bin][u.tenant]}
}

func (m *measurements) begin(u *utterance) {
	for _, c := range m.of(u) {
		c.sent++
	}
}

func (m *measurements) queued(u *utterance) {
	for _, c := range m.of(u) {
		c.waited++
	}
}

// placed records how long an utterance has waited for its slot.
func (m *measurements) placed(u *utterance, now int64) {
	for _, c := range m.of(u) {
		if !u.retried {
			c.placed++
		}
		_ = c.waits.RecordValue(now - u.began) // at most the limit of a wait, which is checked elsewhere
	}
}

func (m *measurements) end(u *utterance, how outcome) {
	for _, c := range m.of(u) {
		c.ended[how]++
	}
}

// fairness compares the slots that tenants get while they wait with those they are entitled to. It does so for each class, in windows of the
// slots that the class could have used, and among the tenants that wait in the class all that time: these get the slots by their weights,
// whether they use them in this class or in another. A tenant whose utterances get a slot in the window in which they were said sends less than it is
// entitled to, and is not compared.
type fairness struct {
	slots             int // of a window
	windows           map[*class]*window
	compared          int
	granted, entitled []float64   // by tenant, in all windows
	deviations        [][]float64 // by tenant: of each window, relative to the entitlement
	contested, bound  int         // slots of the pool to which a tenant is bound that waiters of both queues could use; those that the bound one got
}

// window is some slots that a class could have used.
type window struct {
	began   int64
	slots   int
	granted []int  // by tenant
	idle    []bool // the tenant does not wait in the class, or did not for a moment, or is served at once
}

func newFairness(slots int) fairness {
	n := len(tenantPlans)
	return fairness{slots: slots, windows: make(map[*class]*window), granted: make([]float64, n), entitled: make([]float64, n), deviations: make([][]float64, n)}
}

// offered records an offer.
func (f *fairness) offered(l *line, u *utterance) {
	c := u.request.class
	if w := f.windows[c]; w != nil && c.waiting[u.tenant] == 0 {
		w.idle[u.tenant] = true
	}
	if g := u.offered.group; g.pool == boundPool && (c.pool != "" || l.waitsFor(g, boundPool)) && (c.pool == "" || l.waitsFor(g, "")) {
		f.contested++
		if c.pool != "" {
			f.bound++
		}
	}
}

// waitsFor reports whether utterances wait in the queue of a pool that the nodes of a group could serve.
func (l *line) waitsFor(g *group, pool core.PoolID) bool {
	return slices.ContainsFunc(l.open[pool], func(c *class) bool { return g.serves[c.direction] && slices.Max(c.waiting) > 0 })
}

// grant records that an utterance has got the slot it was offered.
func (f *fairness) grant(l *line, u *utterance, now int64) {
	own := u.request.class
	if own.pool != "" {
		return
	}
	for _, c := range l.open[""] {
		if !u.offered.group.serves[c.direction] {
			continue
		}
		w := f.windows[c]
		if w == nil {
			w = &window{}
			f.windows[c] = w
			w.begin(c, now)
		}
		if c == own && u.began >= w.began {
			w.idle[u.tenant] = true
		}
		if c == own || c.waiting[u.tenant] > 0 {
			w.granted[u.tenant]++
		}
		if w.slots++; w.slots == f.slots {
			f.compare(w)
			w.begin(c, now)
		}
	}
}

// begin begins a window.
func (w *window) begin(c *class, now int64) {
	*w = window{began: now, granted: make([]int, len(tenantPlans)), idle: make([]bool, len(tenantPlans))}
	for i, n := range c.waiting {
		w.idle[i] = n == 0
	}
}

// compare compares the shares of a window, if at least two tenants wait all the time and get most of the slots.
func (f *fairness) compare(w *window) {
	weights, total, among := 0, 0, 0
	for i, t := range tenantPlans {
		if !w.idle[i] {
			weights, total, among = weights+t.weight, total+w.granted[i], among+1
		}
	}
	if among < 2 || total < f.slots/2 {
		return
	}
	f.compared++
	for i, t := range tenantPlans {
		if !w.idle[i] {
			entitled := float64(total*t.weight) / float64(weights)
			f.granted[i] += float64(w.granted[i])
			f.entitled[i] += entitled
			f.deviations[i] = append(f.deviations[i], float64(w.granted[i])/entitled-1)
		}
	}
}

// share is what a tenant got in a part of the day, and what it was entitled to.
type share struct {
	tenant        int
	got, entitled float64
}

// sharesOf compares what the tenants that are bound to no pool got with their parts of what they got together, if none gets more than it has
// sent.
func sharesOf(list []counts) []share {
	var shares []share
	var wanted []float64
	var weights []int
	served := 0.0
	for i, t := range tenantPlans {
		if t.pool == "" {
			shares = append(shares, share{tenant: i, got: float64(list[i].placed)})
			wanted, weights = append(wanted, float64(list[i].sent)), append(weights, t.weight)
			served += float64(list[i].placed)
		}
	}
	for i, entitled := range entitlements(served, wanted, weights) {
		shares[i].entitled = entitled
	}
	return shares
}

// entitlements divides slots among tenants by their weights, none of which gets more than it wants.
func entitlements(slots float64, wanted []float64, weights []int) []float64 {
	got, open := make([]float64, len(wanted)), make([]bool, len(wanted))
	for i := range open {
		open[i] = wanted[i] > 0
	}
	for {
		sum := 0
		for i := range open {
			if open[i] {
				sum += weights[i]
			}
		}
		if sum == 0 {
			return got
		}
		met := false
		for i := range open {
			if open[i] && wanted[i] <= slots*float64(weights[i])/float64(sum) {
				got[i], open[i], met = wanted[i], false, true
				slots -= wanted[i]
				break
			}
		}
		if !met {
			for i := range open {
				if open[i] {
					got[i] = slots * float64(weights[i]) / float64(sum)
				}
			}
			return got
		}
	}
}
