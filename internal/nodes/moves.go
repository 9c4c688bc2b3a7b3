package nodes

import "github.com/lingua-scheduler/lingua/internal/core"

// moves reports whether a node that registers was connected with another instance until now, as far as is known here.
func (l *Registry) moves(next *core.Node) bool {
	n := l.fleet.Node(next.ID)
	if n == nil || next.Owner == "" {
		return false
	}
	was := n.Declared()
	return was.Owner != "" && was.Owner != next.Owner && was.Health != core.HealthOffline
}
