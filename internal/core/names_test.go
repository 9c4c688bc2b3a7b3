package core

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// namedValue is a type whose values are stored and sent by name.
type namedValue interface {
	~uint8
	String() string
}

// roundTrip checks that each value has its own name, that parsing the name gives the value, and that no other text does.
// The names are stored: they must not change.
func roundTrip[T namedValue](t *testing.T, want []string, parse func(string) (T, error)) {
	t.Helper()
	var names []string
	for i := range 256 {
		v := T(i)
		name := v.String()
		if name == "" {
			continue
		}
		names = append(names, name)
		if got, err := parse(name); err != nil || got != v {
			t.Errorf("parse(%q) = %d, %v, want %d", name, got, err, v)
		}
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	for _, bad := range []string{"", " ", "nonsense", want[0] + " ", strings.ToLower(want[0]) + "x", "0", "1"} {
		got, err := parse(bad)
		if err == nil || got != 0 {
			t.Errorf("parse(%q) = %d, %v, want an error", bad, got, err)
			continue
		}
		// The error must list the valid names.
		for _, name := range want {
			if !strings.Contains(err.Error(), name) {
				t.Errorf("parse(%q): the error %q does not offer %s", bad, err, name)
			}
		}
	}
}

func TestStateNames(t *testing.T) {
	t.Parallel()
	roundTrip(t, []string{"NEW", "SELECTING", "RESERVED", "DISPATCHED", "ACKED", "RETRYING", "DONE", "FAILED", "CANCELLED"}, ParseState)
	if _, err := ParseState("done"); err == nil {
		t.Error("ParseState takes lower case: two spellings of one state would be stored")
	}
}

func TestHealthNames(t *testing.T) {
	t.Parallel()
	roundTrip(t, []string{"ready", "degraded", "draining", "offline"}, ParseHealth)
}

func TestServiceStatusNames(t *testing.T) {
	t.Parallel()
	roundTrip(t, []string{"ready", "downloading", "verifying", "installing", "stopped", "error"}, ParseServiceStatus)
}

// TestEventAndLeaseStateNames checks names that are written to logs and metrics only and never parsed.
func TestEventAndLeaseStateNames(t *testing.T) {
	t.Parallel()
	var events, leases []string
	for i := range 256 {
		events = append(events, Event(i).String())
		leases = append(leases, LeaseState(i).String())
	}
	blank := func(s string) bool { return s == "" }
	want := []string{"select", "reserve", "record", "ack", "done", "retry", "takeover", "move", "rebind", "fail", "cancel"}
	if diff := cmp.Diff(want, slices.DeleteFunc(events, blank)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"reserved", "running", "parked", "revoked"}, slices.DeleteFunc(leases, blank)); diff != "" {
		t.Errorf("states of a lease (-want +got):\n%s", diff)
	}
}

func TestTriOf(t *testing.T) {
	t.Parallel()
	if TriOf(true) != Yes || TriOf(false) != No || Unknown != 0 {
		t.Errorf("TriOf(true) = %d, TriOf(false) = %d, Unknown = %d", TriOf(true), TriOf(false), Unknown)
	}
}
