package core

import (
	"fmt"
	"iter"

	"github.com/lingua-scheduler/lingua/wire"
)

// State is the state of a job.
type State uint8

// The states of a job. NEW, SELECTING and RESERVED exist within one call of the dispatcher and are never stored; ACKED is
// derived from the lease; stores hold DISPATCHED, RETRYING and the terminal ones.
const (
	StateNew State = iota + 1
	StateSelecting
	StateReserved
	StateDispatched
	StateAcked
	StateRetrying
	StateDone
	StateFailed
	StateCancelled
)

var stateNames = [...]string{
	StateNew: "NEW", StateSelecting: "SELECTING", StateReserved: "RESERVED", StateDispatched: "DISPATCHED",
	StateAcked: "ACKED", StateRetrying: "RETRYING", StateDone: "DONE", StateFailed: "FAILED", StateCancelled: "CANCELLED",
}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return ""
}

// ParseState parses the name of a state.
func ParseState(name string) (State, error) {
	for s := range States() {
		if s.String() == name {
			return s, nil
		}
	}
	return 0, fmt.Errorf("%q is not a job state: use one of NEW, SELECTING, RESERVED, DISPATCHED, ACKED, RETRYING, DONE, FAILED, CANCELLED",
		wire.Quote(name))
}

// States lists every state.
func States() iter.Seq[State] {
	return func(yield func(State) bool) {
		for s := StateNew; s <= StateCancelled; s++ {
			if !yield(s) {
				return
			}
		}
	}
}

// Terminal reports whether the job has ended. No event leads out of a terminal state.
func (s State) Terminal() bool { return s == StateDone || s == StateFailed || s == StateCancelled }

// Event is an input of the state machine of a job.
type Event uint8

// The events. Those before EventAck are within one call of the dispatcher.
const (
	EventSelect   Event = iota + 1 // the selection of a node has started
	EventReserve                   // a slot of a node was reserved
	EventRecord                    // the record was written, with node and attempt; the delivery follows
	EventAck                       // the node acknowledged the job
	EventDone                      // the node sent the result
	EventRetry                     // the attempt failed; its owner selects another node
	EventTakeover                  // another dispatcher took the retry over from its owner
	EventMove                      // the job was assigned to another node
	EventRebind                    // the node registered again and still has the job
	EventFail                      // the job failed for good
	EventCancel                    // the job was cancelled
)

var eventNames = [...]string{
	EventSelect: "select", EventReserve: "reserve", EventRecord: "record",
	EventAck: "ack", EventDone: "done", EventRetry: "retry", EventTakeover: "takeover",
	EventMove: "move", EventRebind: "rebind", EventFail: "fail", EventCancel: "cancel",
}

func (e Event) String() string {
	if int(e) < len(eventNames) {
		return eventNames[e]
	}
	return ""
}

// Events lists every event.
func Events() iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for e := EventSelect; e <= EventCancel; e++ {
			if !yield(e) {
				return
			}
		}
	}
}

// transitions is the whole state machine. A pair that is not in it is refused.
var transitions = [StateCancelled + 1][EventCancel + 1]State{
	StateNew: {
		EventSelect: StateSelecting,
		EventCancel: StateCancelled,
	},
	StateSelecting: {
		EventReserve: StateReserved,
		EventCancel:  StateCancelled,
	},
	StateReserved: {
		EventRecord: StateDispatched,
		EventCancel: StateCancelled,
	},
	StateDispatched: {
		EventAck:    StateAcked,
		EventDone:   StateDone, // a result may arrive before its ACK
		EventRetry:  StateRetrying,
		EventMove:   StateDispatched, // to another node: its node refused the delivery, or lost its connection
		EventRebind: StateDispatched,
		EventFail:   StateFailed,
		EventCancel: StateCancelled,
	},
	StateAcked: {
		EventAck:    StateAcked, // repeated
		EventDone:   StateDone,
		EventRetry:  StateRetrying,
		EventMove:   StateDispatched,
		EventRebind: StateAcked,
		EventFail:   StateFailed,
		EventCancel: StateCancelled,
	},
	StateRetrying: {
		EventDone:     StateDone, // the result of an attempt that was given up
		EventTakeover: StateRetrying,
		EventMove:     StateDispatched,
		EventRebind:   StateRetrying,
		EventFail:     StateFailed,
		EventCancel:   StateCancelled,
	},
}

// Next returns the state after event in s, or false if the table has no such transition.
func (s State) Next(event Event) (State, bool) {
	if s < StateNew || s > StateCancelled || event < EventSelect || event > EventCancel {
		return 0, false
	}
	next := transitions[s][event]
	return next, next != 0
}
