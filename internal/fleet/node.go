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
	brief  atomic.Uint64 // packed: what of now every draw asks
	seen   atomic.Int64  // Instant of the last heartbeat
	flight atomic.Uint64 // packed observation of how full it was
	load   atomic.Uint64 // packed core.Load
	aside  atomic.Int64  // Instant until which it is set aside
	epoch  atomic.Int64
	id     core.NodeID

	now    atomic.Pointer[core.Node]
	marks  atomic.Pointer[map[string]Instant]
	misses atomic.Int32 // consecutive ACKs it missed
	handle store.Handle
	_      [24]byte // fills the second line, so that no node straddles a third
}

func newNode(s store.NodeStatus) *Node {
	n := &Node{id: s.Node.ID, handle: s.Handle}
	n.declare(s.Node)
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
func (n *Node) Now() *core.Node { return n.now.Load() }

// declare takes over what the node declares.
func (n *Node) declare(declared *core.Node) {
	n.now.Store(declared)
	n.epoch.Store(int64(declared.Epoch))
	n.pack()
}

// pack writes down what of the node every draw asks. Only writers of the fleet call it.
func (n *Node) pack() {
	declared := n.now.Load()
	b := packBrief(declared)
	if n.marks.Load() != nil && declared.Capability.Stages() != 0 {
		b |= uint64(briefMarked)
	}
	n.brief.Store(b)
}

// Brief is the little of what a node declares that every draw asks.
type Summary uint64

const (
	briefReady Summary = 1 << iota
	briefTenant
	briefReachable
	// briefMarked says that services are marked: then the stages that are ready depend on the time as well.
	briefMarked
	briefStage // the first of the stages that are not ready, four bits
	briefBits  = iota + stageBits - 1
)

const (
	stageBits   = 4
	briefStages = (core.StageASR | core.StageSemantic | core.StageNMT | core.StageTTS) // as they stand in core
	briefDoubt  = briefMarked | Summary(briefStages)*briefStage
)

func packBrief(declared *core.Node) uint64 {
	b := Summary(max(declared.MaxJobs, 0)) << briefBits
	if declared.AcceptsJobs() {
		b |= briefReady
	}
	if declared.Tenant != "" {
		b |= briefTenant
	}
	if declared.Reachable() {
		b |= briefReachable
	}
	b |= Summary(declared.Capability.Unready(unmarked)) * briefStage
	return uint64(b)
}

func unmarked(string) bool { return false }

// Brief returns it.
func (n *Node) Summary() Summary { return Summary(n.brief.Load()) }

// MaxJobs is how many jobs the node takes at once.
func (b Summary) MaxJobs() int { return int(b >> briefBits) }

// Ready reports whether the node may be granted work.
func (b Summary) Ready() bool { return b&briefReady != 0 }

// Tenant reports whether the node belongs to one tenant only.
func (b Summary) Tenant() bool { return b&briefTenant != 0 }

// Reachable reports whether there is a way to hand the node a job.
func (b Summary) Reachable() bool { return b&briefReachable != 0 }

// Doubtful reports whether some stage of a job may not be ready on the node.
func (b Summary) Doubtful() bool { return b&briefDoubt != 0 }

// Unready says which stage of a job the node declares services for and has none that can be used; ReasonNone when there
// is none.
func (n *Node) Unready(tts bool, now Instant) core.Reason {
	b := n.Summary()
	if b&briefMarked == 0 {
		return (core.Stages(b/briefStage) & briefStages).Reason(tts)
	}
	return n.Now().Capability.Unready(func(service string) bool { return n.Marked(service, now) }).Reason(tts)
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
func (n *Node) Silence(now Instant) time.Duration { return time.Duration(now - Instant(n.seen.Load())) }

// touch notes a sighting; an older one than the last changes nothing.
func (n *Node) touch(at Instant) {
	for {
		last := n.seen.Load()
		if int64(at) <= last || n.seen.CompareAndSwap(last, int64(at)) {
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
	asideStep = 5 * time.Second
	asideMost = 60 * time.Second
)

// Missed notes that the node did not confirm a job: it is set aside for longer at each miss in a row.
func (n *Node) Missed(now Instant) {
	misses := n.misses.Add(1)
	n.aside.Store(int64(now) + int64(min(time.Duration(misses)*asideStep, asideMost)))
}

// Answered notes that the node confirmed a job.
func (n *Node) Answered() {
	if n.misses.Load() != 0 {
		n.misses.Store(0)
		n.aside.Store(0)
	}
}

// SetAside reports whether the node is left in peace for now.
func (n *Node) SetAside(now Instant) bool { return n.aside.Load() > int64(now) }

// AsideFor is for how much longer it is left in peace.
func (n *Node) AsideFor(now Instant) time.Duration {
	return max(0, time.Duration(n.aside.Load()-int64(now)))
}
