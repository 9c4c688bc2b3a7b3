package scale

import (
	"math"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/pick"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
)

// session is somebody who speaks from time to time.
type session struct {
	tenant, direction, region uint8
	speaking                  bool // its next utterance is in the schedule
}

// utterance is something that a session has said, until it has ended.
type utterance struct {
	index, turn uint32 // the turn grows whenever it begins to be something else, so that earlier events are void
	tenant      int
	session     uint32
	request     *request
	phase       int   // in which it was said
	began       int64 // when it was said, or its node was found to have vanished
	deadline    int64 // until when it may wait
	node        *node // that has it
	offered     *node // of which it was offered a slot
	waits       bool
	retried     bool
	live        bool
	waiter      fairqueue.Waiter
}

// instance returns the instance to which the session is connected.
func (u *utterance) instance() int { return int(u.session) % instanceCount }

// model is a day that is being simulated.
type model struct {
	plan
	t         *testing.T
	rng       *rand.Rand
	schedule  schedule
	ledger    *ledger
	selector  *selector
	line      *line
	requests  [][]request // by tenant, then by direction and region
	sessions  []session
	active    int     // the first so many sessions speak
	gap       float64 // mean time between two utterances of a session, in milliseconds
	utterance []utterance
	unused    []uint32
	measured  *measurements
	clock     float64        // the hour of the day
	hours     *atomic.Uint64 // how far the day is, as the bits of a float64, for progress
}

// newModel makes the nodes and the sessions. It must be called in the bubble in which the model runs.
func newModel(t *testing.T, p plan, hours *atomic.Uint64) *model {
	t.Helper()
	rng := rand.New(rand.NewPCG(p.seed, 18))
	fl := fleet.New(time.Hour)
	fl.SetPools(division())
	for _, d := range directionPlans { // before there are nodes: an index of nodes that exist has them in no particular order
		fl.Route(d.Direction, false)
		for _, r := range regionPlans {
			fl.RestrictedRoute(d.Direction, false, &core.Restriction{Region: r.name})
		}
	}
	picker := pick.New(fl, policy, rng.IntN)
	m := &model{plan: p, t: t, rng: rng, measured: newMeasurements(p.window), hours: hours}
	m.ledger = newLedger(rng, fl, p.nodes)
	m.line = newLine(fl, picker, rng)
	m.line.offered = m.sendOffer
	m.selector = &selector{fleet: fl, picker: picker, ledger: m.ledger, open: m.line.openClasses, rng: rng, surveyEvery: p.surveyEvery}
	m.gap = float64(p.sessions) * meanService() / (peakLoad * float64(m.ledger.slots))
	for _, tenant := range tenantPlans {
		var list []request
		for d := range directionPlans {
			for r := range regionPlans {
				list = append(list, newRequest(m.line, &tenant, d, r))
			}
		}
		m.requests = append(m.requests, list)
	}
	for range p.sessions {
		m.sessions = append(m.sessions, session{
			tenant:    uint8(choose(rng, tenantPlans, func(p *tenantPlan) float64 { return p.part })),
			direction: uint8(choose(rng, directionPlans, func(p *directionPlan) float64 { return p.part })),
			region:    uint8(choose(rng, regionPlans, func(p *regionPlan) float64 { return p.part })),
		})
	}
	return m
}

func newRequest(l *line, tenant *tenantPlan, direction, region int) request {
	return request{
		spec: core.Spec{
			Tenant: tenant.id, Direction: directionPlans[direction].Direction, Options: core.Options{PreferredRegion: regionPlans[region].name},
		},
		direction: direction, region: region, class: l.byID[newClass(l.fleet, direction, tenant.pool).id],
	}
}

// tickInterval is how often the load follows the curve, the queues are tended, and the use of slots is measured, in milliseconds.
const tickInterval = 100

// run simulates the day, and then what is left of it when nobody speaks any more.
func (m *model) run() {
	over := int64(0) // when the day was over
	for now := int64(0); over == 0 || m.inFlight() > 0 && now < over+2*horizon; now++ {
		m.schedule.now = now
		if now%tickInterval == 0 {
			if m.clock = m.hourAfter(now); m.clock >= day && over == 0 {
				over, m.active = now, 0
			}
			m.tick(int(now / tickInterval))
		}
		m.schedule.each(m.happen)
		time.Sleep(time.Millisecond)
	}
	if n := m.inFlight(); n > 0 {
		m.t.Errorf("%d utterances have not ended", n)
	}
}

// inFlight returns how many utterances have not ended.
func (m *model) inFlight() int { return len(m.utterance) - len(m.unused) }

// tick does what is done periodically.
func (m *model) tick(round int) {
	m.hours.Store(math.Float64bits(m.clock))
	if down := m.isDown(); down != (m.clock >= failure && m.clock < returned) {
		if down {
			m.restoreRegion()
		} else {
			m.failRegion()
		}
	}
	if m.clock < day {
		m.activate(int(activeAt(m.clock) * float64(len(m.sessions))))
		m.measured.sample(m.clock, m.ledger.taken, m.ledger.slots)
	}
	m.ledger.heartbeat(round, int(heartbeatInterval/time.Millisecond/tickInterval))
	m.line.tend(m.schedule.now, round)
}

// activate lets the first so many sessions speak, and no others.
func (m *model) activate(target int) {
	m.active = min(m.active, target)
	for ; m.active < target; m.active++ {
		if s := &m.sessions[m.active]; !s.speaking {
			s.speaking = true
			m.schedule.after(int64(m.rng.ExpFloat64()*m.gap), event{index: uint32(m.active), kind: eventSpeak})
		}
	}
}

// happen does what an event says.
func (m *model) happen(e event) {
	if e.kind == eventSpeak {
		m.speak(e.index)
		return
	}
	u := &m.utterance[e.index]
	if u.turn != e.turn {
		return
	}
	switch e.kind {
	case eventDone:
		m.finish(u)
	case eventRetry:
		m.place(u)
	case eventOffer:
		m.receiveOffer(u)
	case eventExpire:
		m.expire(u)
	}
}

// minGap is the shortest time between two utterances of a session, in milliseconds.
const minGap = 200

// speak says something, and schedules the next time.
func (m *model) speak(index uint32) {
	s := &m.sessions[index]
	if s.speaking = int(index) < m.active; !s.speaking {
		return
	}
	gap := m.gap
	if tenantPlans[s.tenant].floods && m.clock >= floodBegins && m.clock < floodEnds {
		gap /= floodFactor
	}
	m.schedule.after(int64(minGap+m.rng.ExpFloat64()*max(gap-minGap, 0)), event{index: index, kind: eventSpeak})

	u := m.newUtterance()
	u.session, u.tenant, u.phase = index, int(s.tenant), m.measured.phase
	u.request = &m.requests[s.tenant][int(s.direction)*len(regionPlans)+int(s.region)]
	u.began = m.schedule.now
	m.measured.begin(u)
	m.place(u)
}

func (m *model) newUtterance() *utterance {
	if len(m.unused) == 0 {
		m.utterance = append(m.utterance, utterance{index: uint32(len(m.utterance))})
		m.unused = append(m.unused, uint32(len(m.utterance)-1))
	}
	u := &m.utterance[m.unused[len(m.unused)-1]]
	m.unused = m.unused[:len(m.unused)-1]
	*u = utterance{index: u.index, turn: u.turn + 1, live: true}
	return u
}

// end ends an utterance.
func (m *model) end(u *utterance, how outcome) {
	if !u.live {
		m.t.Errorf("an utterance of tenant %s has ended twice", tenantPlans[u.tenant].id)
		return
	}
	m.measured.end(u, how)
	u.live = false
	u.turn++
	m.unused = append(m.unused, u.index)
}

// place looks for a slot, unless others wait for the same ones, and lets the utterance wait if there is none.
func (m *model) place(u *utterance) {
	now := m.schedule.now
	var tried []core.NodeID
	if u.retried {
		tried = []core.NodeID{u.node.declared.ID}
	}
	if !m.line.isOpen(u.request.class) {
		if n := m.selector.selectNode(u.request, tried); n != nil {
			m.begin(u, n)
			return
		}
	}
	u.deadline = u.began + waitLimit
	switch r := m.line.enqueue(now, u, m.maxWaiting); r.Verdict {
	case fairqueue.Queued:
		u.turn++
		u.waits = true
		m.measured.queued(u)
		m.schedule.after(u.deadline-now, event{index: u.index, turn: u.turn, kind: eventExpire})
		if r.First {
			m.line.sweep(now, u.request.class, maxSwept)
		}
	case fairqueue.CannotBeMet:
		m.end(u, refusedCannotBeMet)
	case fairqueue.QueueFull:
		m.end(u, refusedQueueFull)
	default:
		m.t.Errorf("the queue answered %d to an utterance that has just begun to wait", r.Verdict)
		m.end(u, expired)
	}
}

// begin gives an utterance to the node of a reserved slot.
func (m *model) begin(u *utterance, n *node) {
	now := m.schedule.now
	if u.waits && now > u.deadline {
		m.t.Errorf("an utterance got a slot %d ms after it had waited as long as it may", now-u.deadline)
	}
	u.turn++
	u.node, u.offered, u.waits = n, nil, false
	if n.running++; n.running > n.declared.MaxJobs {
		m.t.Errorf("node %s has %d utterances and %d slots", n.declared.ID, n.running, n.declared.MaxJobs)
	}
	m.measured.placed(u, now)
	d := &directionPlans[u.request.direction]
	// The mean of a log-normal distribution is that of the normal one and half the variance.
	took := math.Exp(math.Log(float64(d.service.Milliseconds())) - serviceSpread*serviceSpread/2 + serviceSpread*m.rng.NormFloat64())
	m.selector.fleet.ObserveServiceTime(time.Duration(took * float64(time.Millisecond)))
	m.schedule.after(int64(took), event{index: u.index, turn: u.turn, kind: eventDone})
}

// finish ends an utterance that its node has finished, and offers the slot.
func (m *model) finish(u *utterance) {
	n := u.node
	n.running--
	m.end(u, done)
	m.ledger.release(n)
	n.view.EndJob()
	m.line.freed(m.schedule.now, n, 1)
}

// maxHop is the longest time that an offer takes to the instance of the waiter, in milliseconds.
const maxHop = 3

// sendOffer sends an offer to the instance of the waiter.
func (m *model) sendOffer(w fairqueue.Waiter, n *node) {
	index, err := strconv.ParseUint(w.ID, 10, 32)
	if err != nil {
		m.t.Errorf("a waiter with the id %q: %v", w.ID, err)
		return
	}
	u := &m.utterance[index]
	if u.waiter != w || !u.waits {
		m.t.Errorf("a slot was offered to %+v, who does not wait", w)
		return
	}
	u.offered = n
	m.line.waiting(u, -1)
	m.measured.fairness.offered(m.line, u)
	m.schedule.after(1+int64(m.rng.IntN(maxHop)), event{index: u.index, turn: u.turn, kind: eventOffer})
}

// receiveOffer reserves the slot that an utterance was offered. If it is taken, the utterance waits on.
func (m *model) receiveOffer(u *utterance) {
	now := m.schedule.now
	if !m.selector.reserveOffered(u.request, u.offered) {
		m.line.giveBack(now, u)
		m.measured.returned++
		return
	}
	m.line.dequeue(now, u, true)
	m.measured.fairness.grant(m.line, u, now)
	m.begin(u, u.offered)
}

// expire ends an utterance that has waited as long as it may. A slot that it was offered goes to the next.
func (m *model) expire(u *utterance) {
	now := m.schedule.now
	m.line.dequeue(now, u, false)
	n := u.offered
	m.end(u, expired)
	if n != nil {
		m.line.freed(now, n, 1)
	}
}

// isDown reports whether the region that fails has failed.
func (m *model) isDown() bool {
	for _, n := range m.ledger.nodes {
		if n.group.region == failed {
			return n.view == nil
		}
	}
	return false
}

// noticed is after what time an instance finds out that a node of a job has vanished, in milliseconds.
const noticed = 1000

// failRegion removes all nodes of a region. What they had is placed again.
func (m *model) failRegion() {
	for _, n := range m.ledger.nodes {
		if n.group.region == failed {
			m.ledger.leave(n)
		}
	}
	for i := range m.utterance {
		u := &m.utterance[i]
		if u.live && !u.waits && u.node != nil && u.node.view == nil {
			u.turn++
			u.retried = true
			u.began = m.schedule.now + noticed
			m.measured.retried++
			m.schedule.after(noticed, event{index: u.index, turn: u.turn, kind: eventRetry})
		}
	}
}

// restoreRegion registers the nodes of the region again. They offer their slots to those who wait.
func (m *model) restoreRegion() {
	for _, n := range m.ledger.nodes {
		if n.group.region == failed {
			m.ledger.rejoin(n)
			m.line.freed(m.schedule.now, n, n.free())
		}
	}
}
