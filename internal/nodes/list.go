package nodes

import (
	"context"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Filter selects nodes. Zero fields select all.
type Filter struct {
	State  string    // as State says
	Lang   core.Lang // that it has, for whatever step
	Region string
}

// Silent is the state of a node that is not heard any more; the others are those of its health.
const Silent = "silent"

// StateOf is in which state a node is, which was last heard so long ago.
func (l *Registry) StateOf(n *core.Node, age time.Duration) string {
	if age >= l.cfg.Presence && n.Health != core.HealthOffline {
		return Silent
	}
	return n.EffectiveHealth().String()
}

// declared reports whether a node that declares this is selected, whatever its state.
func (f *Filter) declared(n *core.Node) bool {
	c := &n.Capability
	return (f.Region == "" || f.Region == n.Region) &&
		(f.Lang == "" || slices.Contains(c.Semantic, f.Lang) || slices.Contains(c.ASR, f.Lang) || slices.Contains(c.TTS, f.Lang))
}

// Page lists nodes in the order of their names, from after one of them on, and says whether there are more. The names of all
// are read, which is little; of the nodes themselves only those of the page, and those that this instance does not know well
// enough to leave them out.
func (l *Registry) Page(ctx context.Context, f Filter, after core.NodeID, limit int) (page []store.NodeStatus, more bool, err error) {
	seen, err := l.store.LastSeen(ctx)
	if err != nil {
		return nil, false, l.down(ctx, "nodes", err)
	}
	ids := make([]core.NodeID, 0, len(seen))
	for _, s := range seen {
		if s.Node > after && l.mayBe(&f, s.Node) {
			ids = append(ids, s.Node)
		}
	}
	slices.Sort(ids)
	for len(ids) > 0 && len(page) <= limit {
		n := min(len(ids), limit+1-len(page))
		some, err := l.store.Nodes(ctx, ids[:n]...)
		if err != nil {
			return nil, false, l.down(ctx, "nodes", err)
		}
		ids = ids[n:]
		for _, s := range some {
			if f.declared(s.Node) && (f.State == "" || f.State == l.StateOf(s.Node, s.Age)) {
				page = append(page, s)
			}
		}
	}
	if more = len(page) > limit; more {
		page = page[:limit]
	}
	return page, more, nil
}

// mayBe reports whether a node may be selected, as far as it is known here.
func (l *Registry) mayBe(f *Filter, id core.NodeID) bool {
	n := l.fleet.Node(id)
	return n == nil || f.declared(n.Declared())
}
