package store

import (
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// EventKind is what happened. The names are stable: they are in responses.
type EventKind string

// The kinds of events.
const (
	EventNodeRegistered   EventKind = "node_registered"   // a node began an epoch
	EventNodeLost         EventKind = "node_lost"         // a node did not reconnect, or fell silent, and its jobs moved
	EventNodeSilent       EventKind = "node_silent"       // nothing came from a connected node although it has a job
	EventJobsMoved        EventKind = "jobs_moved"        // jobs of a node that is disconnected or silent got another node
	EventNodeLeft         EventKind = "node_left"         // a node stopped and said so
	EventNodeRemoved      EventKind = "node_removed"      // an operator removed a node
	EventNodeEvicted      EventKind = "node_evicted"      // a node that was silent for the retention time was removed
	EventNodeDrained      EventKind = "node_drained"      // an operator drained a node
	EventNodeResumed      EventKind = "node_resumed"      // an operator ended the drain of a node
	EventNodeEjected      EventKind = "node_ejected"      // a node fails much more often than others, and gets no jobs for a while
	EventNodeReadmitted   EventKind = "node_readmitted"   // a node that was ejected has all its slots again
	EventInstanceStarted  EventKind = "instance_started"  // an instance began to serve
	EventInstanceStopping EventKind = "instance_stopping" // an instance began to stop
	EventTakeover         EventKind = "takeover"          // an instance took over from one that is gone
	EventDeadLetter       EventKind = "dead_letter"       // a message between instances could not be handled
	EventStoreDown        EventKind = "store_down"        // an instance could not use the store
	EventStoreUp          EventKind = "store_up"          // the store answered the instance again
	EventStatsLeader      EventKind = "stats_leader"      // an instance began to compute the statistics for all
	EventPoolsChanged     EventKind = "pools_changed"     // another division of the fleet into capability pools was published
	// EventServiceUnavailable says that a node reported a service as unavailable, the first of several reports within a short time.
	EventServiceUnavailable EventKind = "service_unavailable"
	EventCoverage           EventKind = "coverage" // a direction that is in demand has lost its last ready node, or has one again
)

// EventKinds lists every kind.
func EventKinds() []EventKind {
	return []EventKind{
		EventNodeRegistered, EventNodeLost, EventNodeSilent, EventJobsMoved,
		EventNodeLeft, EventNodeRemoved, EventNodeEvicted, EventNodeDrained, EventNodeResumed, EventNodeEjected, EventNodeReadmitted,
		EventInstanceStarted, EventInstanceStopping, EventTakeover, EventDeadLetter, EventStoreDown, EventStoreUp, EventStatsLeader,
		EventPoolsChanged,
		EventServiceUnavailable, EventCoverage,
	}
}

// Event is something that happened to the fleet, for people who operate it. It never has text of speech.
type Event struct {
	ID       string          `json:"-"` // its position in the log, which the store decides; opaque
	At       time.Time       `json:"at"`
	Kind     EventKind       `json:"kind"`
	Instance core.InstanceID `json:"instance"`         // that recorded it
	Node     core.NodeID     `json:"node,omitempty"`   // that it is about
	Tenant   core.TenantID   `json:"tenant,omitempty"` // of the node
	Jobs     int             `json:"jobs,omitempty"`   // that were moved
	Detail   string          `json:"detail,omitempty"`
	// Direction is the one whose coverage has changed, and Ready how many ready nodes it has.
	Direction core.Direction `json:"direction,omitzero"`
	Ready     int            `json:"ready,omitempty"`
}
