package stats

import "github.com/lingua-scheduler/lingua/internal/core"

// StateName returns the name of the state of a node that is present.
func StateName(n *core.Node) string { return stateNames[stateOf(n)] }

// StateNameAbsent is the name of the state of a node that is not present.
func StateNameAbsent() string { return stateNames[stateOffline] }
