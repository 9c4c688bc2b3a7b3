package fleet

import (
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Node is one node in view. It stays the same object while the node is in view; what the node declares is
// an immutable value that is swapped. Everything a decision looks at, unless the job makes demands, fills one
// cache line: with many nodes, a decision costs what it misses in the cache.
type Node struct {
	summary  atomic.Uint64 // packed: what of now every draw asks
	lastSeen   atomic.Int64  // Instant of the last heartbeat
	inFlight atomic.Uint64 // packed observation of how full it was
	load   atomic.Uint64 // packed core.Load
	setAsideUntil  atomic.Int64  // Instant until which it is set aside
	epoch  atomic.Int64
	id     core.NodeID

	declared    atomic.Pointer[core.Node]
	marks  atomic.Pointer[map[string]Instant]
	missedACKs atomic.Int32 // consecutive ACKs it missed
	handle store.Handle
	_      [24]byte // fills the second line, so that no node straddles a third
}

func newNode(s store.NodeStatus) *Node {
	n := &Node{id: s.Node.ID, handle: s.Handle}
	n.setDeclared(s.Node)
	n.load.Store(packLoad(core.UnknownLoad))
	return n
}

// ID is the node's name.
func (n *Node) ID() core.NodeID { return n.id }

// Handle is where the store keeps it.
func (n *Node) Handle() store.Handle { return n.handle }

// Epoch is the life it is in.
func (n *Node) Epoch() core.Epoch { return core.Epoch(n.epoch.Load()) }

// Now is what the node declares.
func (n *Node) Declared() *core.Node { return n.declared.Load() }

// declare takes over what the node declares.
func (n *Node) setDeclared(declared *core.Node) {
	n.declared.Store(declared)
	n.epoch.Store(int64(declared.Epoch))
	n.updateSummary()
}

// pack writes down what of the node every draw asks. Only writers of the fleet call it.
func (n *Node) updateSummary() {
	declared := n.declared.Load()
	b := packSummary(declared)
	if n.marks.Load() != nil && declared.Capability.Stages() != 0 {
		b |= uint64(summaryMarked)
	}
	n.summary.Store(b)
}

// Brief is the little of what a node declares that every draw asks.
type Summary uint64

const (
	summaryReady Summary = 1 << iota
	summaryTenant
	summaryReachable
	// briefMarked says that services are marked: then the stages that are ready depend on the time as well.
	summaryMarked
	summaryStage // the first of the stages that are not ready, four bits
	summaryBits  = iota + stageBits - 1
)

const (
	stageBits   = 4
	allStages = (core.StageASR | core.StageSemantic | core.StageNMT | core.StageTTS) // as they stand in core
	summaryMaybeUnready  = summaryMarked | Summary(allStages)*summaryStage
)

func packSummary(declared *core.Node) uint64 {
	b := Summary(max(declared.MaxJobs, 0)) << summaryBits
	if declared.AcceptsJobs() {
		b |= summaryReady
	}
	if declared.Tenant != "" {
		b |= summaryTenant
	}
	if declared.Reachable() {
		b |= summaryReachable
	}
	b |= Summary(declared.Capability.Unready(noMarks)) * summaryStage
	return uint64(b)
}

func noMarks(string) bool { return false }

// Brief returns it.
func (n *Node) Summary() Summary { return Summary(n.summary.Load()) }

// MaxJobs is how many jobs the node takes at once.
func (b Summary) MaxJobs() int { return int(b >> summaryBits) }

// Ready reports whether the node may be granted work.
func (b Summary) Ready() bool { return b&summaryReady != 0 }

// Tenant reports whether the node belongs to one tenant only.
func (b Summary) Tenant() bool { return b&summaryTenant != 0 }

// Reachable reports whether there is a way to hand the node a job.
func (b Summary) Reachable() bool { return b&summaryReachable != 0 }

// Doubtful reports whether some stage of a job may not be ready on the node.
func (b Summary) MaybeUnready() bool { return b&summaryMaybeUnready != 0 }

// Unready says which stage of a job the node declares services for and has none that can be used; ReasonNone when there
// is none.
func (n *Node) Unready(tts bool, now Instant) core.Reason {
	b := n.Summary()
	if b&summaryMarked == 0 {
		return (core.Stages(b/summaryStage) & allStages).Reason(tts)
	}
	return n.Declared().Capability.Unready(func(service string) bool { return n.Marked(service, now) }).Reason(tts)
}

// A load is kept as three numbers of 16 bits, 0 for unknown, so that it is read at once and without a step
// to elsewhere in memory.
const loadScale = 1<<16 - 2

func packLoad(l core.Load) uint64 {
	part := func(v float64) uint64 {
		if v < 0 {
			return 0
		}
		return uint64(min(v, 1)*loadScale) + 1
	}
	return part(l.CPU) | part(l.GPU)<<16 | part(l.Memory)<<32
}

// Load is how busy the node said its machine is.
func (n *Node) Load() core.Load {
	packed := n.load.Load()
	part := func(shift uint) float64 {
		return (float64(packed>>shift&0xffff) - 1) / loadScale
	}
	return core.Load{CPU: part(0), GPU: part(16), Memory: part(32)}
}

// Silence is how long the node has not been heard.
func (n *Node) SinceSeen(now Instant) time.Duration { return time.Duration(now - Instant(n.lastSeen.Load())) }

// touch notes a sighting; an older one than the last changes nothing.
func (n *Node) recordSeen(at Instant) {
	for {
		last := n.lastSeen.Load()
		if int64(at) <= last || n.lastSeen.CompareAndSwap(last, int64(at)) {
			return
		}
	}
}

// Marked reports whether a service of the node was found missing lately.
func (n *Node) Marked(service string, now Instant) bool {
	marks := n.marks.Load()
	return marks != nil && (*marks)[service] > now
}

const (
	setAsideStep = 5 * time.Second
	setAsideMax = 60 * time.Second
)

// Missed notes that the node did not confirm a job: it is set aside for longer at each miss in a row.
func (n *Node) RecordMissedACK(now Instant) {
	misses := n.missedACKs.Add(1)
	n.setAsideUntil.Store(int64(now) + int64(min(time.Duration(misses)*setAsideStep, setAsideMax)))
}

// Answered notes that the node confirmed a job.
func (n *Node) ClearMissedACKs() {
	if n.missedACKs.Load() != 0 {
		n.missedACKs.Store(0)
		n.setAsideUntil.Store(0)
	}
}

// SetAside reports whether the node is left in peace for now.
func (n *Node) IsSetAside(now Instant) bool { return n.setAsideUntil.Load() > int64(now) }

// AsideFor is for how much longer it is left in peace.
func (n *Node) SetAsideFor(now Instant) time.Duration {
	return max(0, time.Duration(n.setAsideUntil.Load()-int64(now)))
}
