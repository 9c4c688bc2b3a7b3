package fleet

import (
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Node is one node in view. It is the same object while the node is in view; its declaration is an immutable value that is
// swapped. The fields that every selection reads fill one cache line: with many nodes, cache misses are the cost of a
// selection.
type Node struct {
	summary       atomic.Uint64 // packed: the part of declared that every selection reads
	lastSeen      atomic.Int64  // Instant of the last heartbeat
	others        atomic.Uint64 // packed observation of the number of jobs of other instances
	load          atomic.Uint64 // packed core.Load
	setAsideUntil atomic.Int64  // Instant until which it is set aside
	ours          atomic.Int32  // jobs of this instance, those that are being reserved included
	missedACKs    atomic.Int32  // consecutive
	id            core.NodeID

	declared atomic.Pointer[core.Node]
	marks    atomic.Pointer[map[markKey]mark]
	epoch    atomic.Int64
	handle   store.Handle
	clock    atomic.Int64 // the store's clock in Unix nanoseconds minus the Instant; 0: unknown
	revision atomic.Int64 // of the declaration
	slot     uint32       // in the table of its pool; writers only, as the next
	pool     uint16       // the number of its pool in the division
	_        [2]byte      // fills the second cache line, so that no node extends into a third
}

func newNode(s store.NodeStatus) *Node {
	n := &Node{id: s.Node.ID, handle: s.Handle}
	n.setDeclared(s.Node)
	n.load.Store(packLoad(core.UnknownLoad))
	return n
}

// ID returns the id of the node.
func (n *Node) ID() core.NodeID { return n.id }

// Handle returns the handle of the node in the store.
func (n *Node) Handle() store.Handle { return n.handle }

// Epoch returns the epoch of the node.
func (n *Node) Epoch() core.Epoch { return core.Epoch(n.epoch.Load()) }

// Declared returns the declaration of the node.
func (n *Node) Declared() *core.Node { return n.declared.Load() }

// setDeclared replaces the declaration.
func (n *Node) setDeclared(declared *core.Node) {
	n.declared.Store(declared)
	n.epoch.Store(int64(declared.Epoch))
	n.revision.Store(int64(declared.Revision))
	n.updateSummary()
}

// updateSummary packs the part of the declaration that every selection reads. Only writers of the fleet call it.
func (n *Node) updateSummary() {
	declared := n.declared.Load()
	b := packSummary(declared)
	if n.marks.Load() != nil && declared.Stages() != 0 {
		b |= uint64(summaryMarked)
	}
	n.summary.Store(b)
}

// Summary is the part of the declaration of a node that every selection reads, packed into one word.
type Summary uint64

const (
	summaryReady Summary = 1 << iota
	summaryTenant
	summaryReachable
	// summaryMarked is set if services are marked: which stages are ready then depends on the time as well.
	summaryMarked
	// summaryEjected is set if the node declares slots and its admission grants none.
	summaryEjected
	summaryStage // the first of the stages that are not ready, four bits
	summaryBits  = iota + stageBits - 1
)

const (
	stageBits           = 4
	allStages           = (core.StageASR | core.StageSemantic | core.StageNMT | core.StageTTS) // in the order of core
	summaryMaybeUnready = summaryMarked | Summary(allStages)*summaryStage
)

func packSummary(declared *core.Node) uint64 {
	b := Summary(declared.Slots()) << summaryBits
	if declared.Ejected() {
		b |= summaryEjected
	}
	if declared.AcceptsJobs() {
		b |= summaryReady
	}
	if declared.Tenant != "" {
		b |= summaryTenant
	}
	if declared.Reachable() {
		b |= summaryReachable
	}
	b |= Summary(declared.Unready(noMarks)) * summaryStage
	return uint64(b)
}

func noMarks(*core.Service) bool { return false }

// Summary returns the summary of the declaration.
func (n *Node) Summary() Summary { return Summary(n.summary.Load()) }

// Slots returns the number of slots that may be granted: those that the node declares, with its admission applied.
func (b Summary) Slots() int { return int(b >> summaryBits) }

// Ejected reports whether the node declares slots and none of them may be granted.
func (b Summary) Ejected() bool { return b&summaryEjected != 0 }

// Ready reports whether the node may get new jobs.
func (b Summary) Ready() bool { return b&summaryReady != 0 }

// Tenant reports whether the node belongs to one tenant only.
func (b Summary) Tenant() bool { return b&summaryTenant != 0 }

// Reachable reports whether jobs can be delivered to the node.
func (b Summary) Reachable() bool { return b&summaryReachable != 0 }

// Grantable reports whether the node gets jobs while it has free slots.
func (b Summary) Grantable() bool { return b.Ready() && b.Reachable() && b.Slots() > 0 }

// MaybeUnready reports whether some stage of a job may not be ready on the node.
func (b Summary) MaybeUnready() bool { return b&summaryMaybeUnready != 0 }

// Unready returns the reason of the first stage of a job for which the node declares services and none of them is usable;
// ReasonNone if there is no such stage.
func (n *Node) Unready(tts bool, now Instant) core.Reason {
	b := n.Summary()
	if b&summaryMarked == 0 {
		return (core.Stages(b/summaryStage) & allStages).Reason(tts)
	}
	return n.Declared().Unready(func(s *core.Service) bool { return n.Marked(s, now) }).Reason(tts)
}

// A load is packed into three numbers of 16 bits, 0 for unknown, so that it is read atomically and from the same cache line.
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

// Load returns the load that the node reported.
func (n *Node) Load() core.Load {
	packed := n.load.Load()
	part := func(shift uint) float64 {
		return (float64(packed>>shift&0xffff) - 1) / loadScale
	}
	return core.Load{CPU: part(0), GPU: part(16), Memory: part(32)}
}

// SinceSeen returns the time since the last heartbeat.
func (n *Node) SinceSeen(now Instant) time.Duration {
	return time.Duration(now - Instant(n.lastSeen.Load()))
}

// recordSeen records when the node was seen, unless it was seen later already.
func (n *Node) recordSeen(at Instant) {
	for {
		last := n.lastSeen.Load()
		if int64(at) <= last || n.lastSeen.CompareAndSwap(last, int64(at)) {
			return
		}
	}
}

// recordClock records the time of the store's clock at an instant.
func (n *Node) recordClock(at time.Time, now Instant) {
	if !at.IsZero() {
		n.clock.Store(at.UnixNano() - int64(now))
	}
}

// StoreTime returns the time of the store's clock, by which the times of the declaration are judged; zero if it is unknown. It is behind by
// as long as the last status of the node was on its way.
func (n *Node) StoreTime(now Instant) time.Time {
	clock := n.clock.Load()
	if clock == 0 {
		return time.Time{}
	}
	return time.Unix(0, clock+int64(now))
}

const (
	setAsideStep = 5 * time.Second
	setAsideMax  = 60 * time.Second
)

// RecordMissedACK sets the node aside, for longer at each consecutive ACK that it missed.
func (n *Node) RecordMissedACK(now Instant) {
	misses := n.missedACKs.Add(1)
	n.setAsideUntil.Store(int64(now) + int64(min(time.Duration(misses)*setAsideStep, setAsideMax)))
}

// SetAside sets the node aside until a time, if it is not set aside for longer.
func (n *Node) SetAside(until Instant) {
	for {
		old := n.setAsideUntil.Load()
		if old >= int64(until) || n.setAsideUntil.CompareAndSwap(old, int64(until)) {
			return
		}
	}
}

// ClearMissedACKs ends the time for which the node is set aside, after it acknowledged a job.
func (n *Node) ClearMissedACKs() {
	if n.missedACKs.Load() != 0 {
		n.missedACKs.Store(0)
		n.setAsideUntil.Store(0)
	}
}

// IsSetAside reports whether the node is set aside.
func (n *Node) IsSetAside(now Instant) bool { return n.setAsideUntil.Load() > int64(now) }

// SetAsideFor returns how much longer the node is set aside.
func (n *Node) SetAsideFor(now Instant) time.Duration {
	return max(0, time.Duration(n.setAsideUntil.Load()-int64(now)))
}
