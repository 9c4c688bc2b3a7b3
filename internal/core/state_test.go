package core

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// wantTransitions is the state machine, written by hand: a row is a state, a column an event, a dot a refusal. It is not
// derived from the code, so that a transition has to be changed in two places.
const wantTransitions = `
           select    reserve  record     ack   done retry    takeover move       rebind     fail   cancel
NEW        SELECTING .        .          .     .    .        .        .          .          .      CANCELLED
SELECTING  .         RESERVED .          .     .    .        .        .          .          .      CANCELLED
RESERVED   .         .        DISPATCHED .     .    .        .        .          .          .      CANCELLED
DISPATCHED .         .        .          ACKED DONE RETRYING .        DISPATCHED DISPATCHED FAILED CANCELLED
ACKED      .         .        .          ACKED DONE RETRYING .        DISPATCHED ACKED      FAILED CANCELLED
RETRYING   .         .        .          .     DONE .        RETRYING DISPATCHED RETRYING   FAILED CANCELLED
DONE       .         .        .          .     .    .        .        .          .          .      .
FAILED     .         .        .          .     .    .        .        .          .          .      .
CANCELLED  .         .        .          .     .    .        .        .          .          .      .
`

// step is one cell of the table.
type step struct{ State, Event string }

func parseTransitions(t *testing.T) map[step]string {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(wantTransitions), "\n")
	events := strings.Fields(lines[0])
	want := make(map[step]string)
	for _, line := range lines[1:] {
		cells := strings.Fields(line)
		if len(cells) != len(events)+1 {
			t.Fatalf("the row %q has %d cells, want %d", line, len(cells)-1, len(events))
		}
		for i, event := range events {
			want[step{cells[0], event}] = cells[i+1]
		}
	}
	return want
}

func TestTransitions(t *testing.T) {
	t.Parallel()
	got := make(map[step]string)
	for s := range States() {
		for e := range Events() {
			next, ok := s.Next(e)
			if ok != (next != 0) {
				t.Errorf("%s.Next(%s) = %d, %v: a step has a state, a refusal has none", s, e, next, ok)
			}
			cell := "."
			if ok {
				cell = next.String()
			}
			got[step{s.String(), e.String()}] = cell
		}
	}
	if len(got) != 9*11 {
		t.Errorf("there are %d pairs of state and event, want 9 × 11: two of them share a name", len(got))
	}
	if diff := cmp.Diff(parseTransitions(t), got); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

func TestNoEventLeavesTerminalStates(t *testing.T) {
	t.Parallel()
	var terminal []State
	for s := range States() {
		final := true
		for e := range Events() {
			if _, ok := s.Next(e); ok {
				final = false
			}
		}
		// Both directions: a job in a state without an exit that is not terminal would never end.
		if final != s.Terminal() {
			t.Errorf("%s: nothing leaves it: %v, terminal: %v", s, final, s.Terminal())
		}
		if s.Terminal() {
			terminal = append(terminal, s)
		}
	}
	if diff := cmp.Diff([]State{StateDone, StateFailed, StateCancelled}, terminal); diff != "" {
		t.Errorf("terminal states (-want +got):\n%s", diff)
	}
}

// reachable returns every state that some sequence of events leads to.
func reachable(from State) map[State]bool {
	seen := map[State]bool{from: true}
	for queue := []State{from}; len(queue) > 0; queue = queue[1:] {
		for e := range Events() {
			if next, ok := queue[0].Next(e); ok && !seen[next] {
				seen[next] = true
				queue = append(queue, next)
			}
		}
	}
	return seen
}

func TestEveryStateIsReachableFromNew(t *testing.T) {
	t.Parallel()
	want := slices.Collect(States())
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(reachable(StateNew)))); diff != "" {
		t.Errorf("reachable from NEW (-want +got):\n%s", diff)
	}
}

// TestEveryOpenStateReachesEachOutcome checks that a job in every open state can still be done, fail and be cancelled.
func TestEveryOpenStateReachesEachOutcome(t *testing.T) {
	t.Parallel()
	for s := range States() {
		if s.Terminal() {
			continue
		}
		reach := reachable(s)
		for _, end := range []State{StateDone, StateFailed, StateCancelled} {
			if !reach[end] {
				t.Errorf("%s never leads to %s", s, end)
			}
		}
	}
}

// TestEveryOpenStateCanBeCancelled checks that only terminal states refuse a cancel.
func TestEveryOpenStateCanBeCancelled(t *testing.T) {
	t.Parallel()
	for s := range States() {
		next, ok := s.Next(EventCancel)
		if want := !s.Terminal(); ok != want {
			t.Errorf("%s: can be cancelled: %v, want %v", s, ok, want)
		}
		if ok && next != StateCancelled {
			t.Errorf("%s: a cancel leads to %s", s, next)
		}
	}
}

func TestNextRefusesValuesOutOfRange(t *testing.T) {
	t.Parallel()
	for state := range 256 {
		for event := range 256 {
			s, e := State(state), Event(event)
			known := s >= StateNew && s <= StateCancelled && e >= EventSelect && e <= EventCancel
			if next, ok := s.Next(e); !known && (ok || next != 0) {
				t.Errorf("State(%d).Next(Event(%d)) = %d, %v, want a refusal", s, e, next, ok)
			}
		}
	}
}

func TestIterationCanStop(t *testing.T) {
	t.Parallel()
	for s := range States() {
		if s != StateNew {
			t.Fatalf("States starts with %s", s)
		}
		break
	}
	for e := range Events() {
		if e != EventSelect {
			t.Fatalf("Events starts with %s", e)
		}
		break
	}
}

// FuzzStateMachine applies any events to any state: stores return what they read, and a message may name any event.
func FuzzStateMachine(f *testing.F) {
	f.Add(byte(StateNew), []byte{1, 2, 3, 4, 5})             // to DONE
	f.Add(byte(StateNew), []byte{1, 2, 2, 3, 6, 7, 8})       // retried, taken over, moved
	f.Add(byte(StateDone), []byte{1, 2, 3, 4, 5, 6, 11, 10}) // after the end
	f.Add(byte(0), []byte{0, 255, 12})
	f.Add(byte(255), []byte{11})
	f.Fuzz(func(t *testing.T, start byte, events []byte) {
		at := State(start)
		ended := at.Terminal()
		for _, b := range events {
			e := Event(b)
			next, ok := at.Next(e)
			switch {
			case !ok && next != 0:
				t.Fatalf("%d.Next(%d) refuses and still names %d", at, e, next)
			case !ok:
				continue
			case ended:
				t.Fatalf("%s left its end by %s to %s", at, e, next)
			case next.String() == "" || e.String() == "":
				t.Fatalf("%d.Next(%d) = %d: one of them has no name", at, e, next)
			}
			at = next
			ended = at.Terminal()
		}
	})
}
