package fleet

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// markKey names what is marked on a node; an empty version is all versions of the service.
type markKey struct{ service, version string }

// mark is one mark of a node. Whether it is in force depends on the declaration of the node, and not on the order in which this
// instance learns of marks and declarations.
type mark struct {
	until       Instant
	epoch       core.Epoch
	nodeVersion core.Version
	reason      core.UnavailableReason // empty: unknown
}

// covers reports whether the mark is in force for a service of a node in an epoch.
func (m mark) covers(s *core.Service, epoch core.Epoch, now Instant) bool {
	return m.until > now && m.epoch == epoch && s.ReadySince <= m.nodeVersion
}

// Mark records that a service of a node is unavailable for a while.
func (f *Fleet) Mark(m store.Mark) {
	n := f.Node(m.Node)
	if n == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now, key := f.Now(), markKey{m.Service, m.Version}
	next := n.currentMarks(now)
	added := mark{until: now + Instant(m.For), epoch: m.Epoch, nodeVersion: m.NodeVersion, reason: m.Reason}
	known, exists := next[key]
	switch {
	case exists && (known.epoch > added.epoch || known.epoch == added.epoch && known.nodeVersion > added.nodeVersion):
		return // this one is older and arrives late
	case exists && added.reason == "" && known.epoch == added.epoch:
		added.reason = known.reason // it was read again: the store does not keep reasons
	}
	if !exists && len(next) >= store.MaxMarks {
		delete(next, firstToExpire(next))
	}
	next[key] = added
	n.marks.Store(&next)
	n.updateSummary()
}

// currentMarks copies the marks that are not expired and not of an earlier epoch.
func (n *Node) currentMarks(now Instant) map[markKey]mark {
	next := make(map[markKey]mark)
	if old := n.marks.Load(); old != nil {
		for key, m := range *old {
			if m.until > now && m.epoch >= n.Epoch() {
				next[key] = m
			}
		}
	}
	return next
}

func firstToExpire(marks map[markKey]mark) markKey {
	return slices.MinFunc(slices.Collect(maps.Keys(marks)), func(a, b markKey) int { return cmp.Compare(marks[a].until, marks[b].until) })
}

// dropMarks drops the marks of earlier epochs, after a registration.
func (n *Node) dropMarks(now Instant) {
	if n.marks.Load() == nil {
		return
	}
	if next := n.currentMarks(now); len(next) > 0 {
		n.marks.Store(&next)
	} else {
		n.marks.Store(nil)
	}
	n.updateSummary()
}

// Marked reports whether a service that the node declares is marked as unavailable.
func (n *Node) Marked(s *core.Service, now Instant) bool { return n.MarkedFor(s, now) > 0 }

// MarkedFor returns how much longer a service that the node declares is marked as unavailable; 0 if it is not marked.
func (n *Node) MarkedFor(s *core.Service, now Instant) time.Duration {
	marks := n.marks.Load()
	if marks == nil {
		return 0
	}
	var until Instant
	epoch := n.Epoch()
	for _, key := range [2]markKey{{s.ID, s.Version}, {s.ID, ""}} {
		if m := (*marks)[key]; m.covers(s, epoch, now) {
			until = max(until, m.until)
		}
	}
	return max(0, time.Duration(until-now))
}

// Usable reports whether some version of a service is ready on the node and not marked.
func (n *Node) Usable(service string, now Instant) bool {
	return n.Declared().Usable(service, func(s *core.Service) bool { return n.Marked(s, now) })
}

// ServiceMark is a mark of a node.
type ServiceMark struct {
	Service, Version string
	For              time.Duration // how much longer
	Reason           core.UnavailableReason
}

// Marks lists the marks that are in force, ordered by service and version. A mark of a service that the node declares is not if the service
// has become ready since.
func (n *Node) Marks(now Instant) []ServiceMark {
	marks := n.marks.Load()
	if marks == nil {
		return nil
	}
	list := n.UndeclaredMarks(now)
	services, epoch := n.Declared().Services, n.Epoch()
	for key, m := range *marks {
		if slices.ContainsFunc(services, func(s core.Service) bool {
			return s.ID == key.service && (key.version == "" || s.Version == key.version) && m.covers(&s, epoch, now)
		}) {
			list = append(list, m.view(key, now))
		}
	}
	sortMarks(list)
	return list
}

func (m mark) view(key markKey, now Instant) ServiceMark {
	return ServiceMark{Service: key.service, Version: key.version, For: time.Duration(m.until - now), Reason: m.reason}
}

func sortMarks(list []ServiceMark) {
	slices.SortFunc(list, func(a, b ServiceMark) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Version, b.Version))
	})
}

// UndeclaredMarks lists the marks on services that the node does not declare, ordered by service and version.
func (n *Node) UndeclaredMarks(now Instant) []ServiceMark {
	marks := n.marks.Load()
	if marks == nil {
		return nil
	}
	var list []ServiceMark
	services, epoch := n.Declared().Services, n.Epoch()
	for key, m := range *marks {
		declared := slices.ContainsFunc(services, func(s core.Service) bool {
			return s.ID == key.service && (key.version == "" || s.Version == key.version)
		})
		if !declared && m.until > now && m.epoch == epoch {
			list = append(list, m.view(key, now))
		}
	}
	sortMarks(list)
	return list
}
