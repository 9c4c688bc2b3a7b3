package nodes

import (
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/wire"
)

// keyLimits limits how many nodes are registered with each key. It counts the nodes that this instance sees, and those that are
// registering here: only instances that register nodes of one key at the same moment can exceed its maximum together.
type keyLimits struct {
	mu          run.Mutex
	registering map[string]map[core.NodeID]int // by key: how many registrations of each node are under way
}

func newKeyLimits() keyLimits {
	return keyLimits{mu: run.NewMutex("nodes_registering"), registering: make(map[string]map[core.NodeID]int)}
}

// begin counts a node that registers, until end is called. It refuses the node if as many as its key allows are registered with the key; 0:
// any number.
func (l *keyLimits) begin(f *fleet.Fleet, id core.NodeID, key string, limit int) (end func(), e *wire.Error) {
	if limit == 0 {
		return func() {}, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.countOthers(f, id, key); n >= limit {
		return nil, wire.FieldErrorf(wire.RateLimited, "node_id",
			"%d nodes are registered with this key, which is its maximum (max_nodes): stop one, or use another key", n).RetryIn(nameRetry)
	}
	if l.registering[key] == nil {
		l.registering[key] = make(map[core.NodeID]int)
	}
	l.registering[key][id]++
	return func() { l.end(key, id) }, nil
}

func (l *keyLimits) end(key string, id core.NodeID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	nodes := l.registering[key]
	if nodes[id]--; nodes[id] == 0 {
		delete(nodes, id)
	}
	if len(nodes) == 0 {
		delete(l.registering, key)
	}
}

// countOthers returns how many other nodes are registered with a key, or are registering.
func (l *keyLimits) countOthers(f *fleet.Fleet, id core.NodeID, key string) (n int) {
	counted := l.registering[key]
	for other := range counted {
		if other != id {
			n++
		}
	}
	for node := range f.All() {
		declared := node.Declared()
		if declared.ID != id && counted[declared.ID] == 0 && declared.Key == key && declared.Health != core.HealthOffline {
			n++
		}
	}
	return n
}
