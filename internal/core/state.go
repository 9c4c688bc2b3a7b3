package core

import (
	"fmt"
	"iter"

	"github.com/lingua-scheduler/lingua/wire"
)

// State is where a job is in its life.
type State uint8

// The states of a job. NEW, SELECTING and RESERVED live within one call of the dispatcher; ACKED is derived
// from the lease; DISPATCHED, RETRYING and the terminal ones are what a store holds.
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

// ParseState reads a state's name.
func ParseState(name string) (State, error) {
	for s := range States() {
		if s.String() == name {
			return s, nil
		}
	}
	return 0, fmt.Errorf("%q is not a job state: use one of NEW, SELECTING, RESERVED, DISPATCHED, ACKED, RETRYING, DONE, FAILED, CANCELLED", wire.Quote(name))
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

// Terminal reports whether the job has ended. Nothing leaves a terminal state.
func (s State) Terminal() bool { return s == StateDone || s == StateFailed || s == StateCancelled }

// Event is something that happens to a job.
type Event uint8

// The events of a job's life.
const (
	EventSelect   Event = iota + 1 // candidates are being looked for
	EventReserve                   // a node's slot was reserved
	EventRefuse                    // no node can take it: the request is refused, nothing is recorded
	EventUnwind                    // the reservation was given back before a record was written
	EventRecord                    // the record was written, naming node and attempt; delivery follows
	EventAck                       // the node confirmed that it has the job
	EventDone                      // the node delivered a result
	EventRetry                     // the attempt failed; an owner looks for another node
	EventTakeover                  // the owner of a retry fell silent; another one takes it
	EventMove                      // the job was given to another node
	EventRebind                    // its node registered again and still has it
	EventFail                      // it is given up
	EventCancel                    // somebody asked for its end
)

var eventNames = [...]string{
	EventSelect: "select", EventReserve: "reserve", EventRefuse: "refuse", EventUnwind: "unwind",
	EventRecord: "record", EventAck: "ack", EventDone: "done", EventRetry: "retry", EventTakeover: "takeover",
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

// table is the whole state machine. What is not in it is refused.
var table = [StateCancelled + 1][EventCancel + 1]State{
	StateNew: {
		EventSelect: StateSelecting,
		EventCancel: StateCancelled,
	},
	StateSelecting: {
		EventReserve: StateReserved,
		EventRefuse:  StateFailed,
		EventCancel:  StateCancelled,
	},
	StateReserved: {
		EventRecord: StateDispatched,
		EventUnwind: StateSelecting,
		EventCancel: StateCancelled,
	},
	StateDispatched: {
		EventAck:    StateAcked,
		EventDone:   StateDone, // a result may overtake its ACK
		EventRetry:  StateRetrying,
		EventMove:   StateDispatched, // the node refused the delivery: the same attempt, another node
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
		EventDone:     StateDone, // the last attempt came through after all
		EventTakeover: StateRetrying,
		EventMove:     StateDispatched,
		EventRebind:   StateRetrying,
		EventFail:     StateFailed,
		EventCancel:   StateCancelled,
	},
}

// Next is the state that event leads to from s. It reports false where the table has no such step.
func (s State) Next(event Event) (State, bool) {
	if s < StateNew || s > StateCancelled || event < EventSelect || event > EventCancel {
		return 0, false
	}
	next := table[s][event]
	return next, next != 0
}
