package fleet

import (
	"testing"
	"time"
)

func TestMissedACKsSetANodeAside(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		misses int
		want   time.Duration
	}{
		{1, 5 * time.Second},
		{2, 10 * time.Second},
		{3, 15 * time.Second},
		{11, 55 * time.Second},
		{12, 60 * time.Second},
		{13, 60 * time.Second},
		{1000, 60 * time.Second},
	} {
		n := newNode(status(declared("a")))
		now := Instant(time.Hour)
		for range c.misses {
			n.RecordMissedACK(now)
		}
		until := now + Instant(c.want)
		if !n.IsSetAside(now) || !n.IsSetAside(until-1) {
			t.Errorf("%d misses: not set aside for %v", c.misses, c.want)
		}
		if n.IsSetAside(until) {
			t.Errorf("%d misses: set aside for more than %v", c.misses, c.want)
		}
	}
}

func TestNodeIsNotSetAsideWithoutAMissedACK(t *testing.T) {
	t.Parallel()
	n := newNode(status(declared("a")))
	for _, now := range []Instant{0, 1, Instant(time.Hour)} {
		if n.IsSetAside(now) {
			t.Errorf("set aside at %v", time.Duration(now))
		}
	}
	n.ClearMissedACKs()
	if n.IsSetAside(0) {
		t.Error("set aside after an answer")
	}
}

// TestAckClearsMissedACKs checks that one acknowledgement clears all misses, also while the node is set aside.
func TestAckClearsMissedACKs(t *testing.T) {
	t.Parallel()
	n := newNode(status(declared("a")))
	now := Instant(time.Hour)
	for range 5 {
		n.RecordMissedACK(now)
	}
	n.ClearMissedACKs()
	if n.IsSetAside(now) {
		t.Error("still set aside after an answer")
	}
	n.RecordMissedACK(now)
	if !n.IsSetAside(now + Instant(5*time.Second) - 1) {
		t.Error("not set aside for the next miss")
	}
	if n.IsSetAside(now + Instant(5*time.Second)) {
		t.Error("forgiven misses still count")
	}
}

// TestMissedACKsCountAfterTheNodeWasSetAside checks that the count of misses survives the time for which the node was set
// aside, which starts at the last miss.
func TestMissedACKsCountAfterTheNodeWasSetAside(t *testing.T) {
	t.Parallel()
	n := newNode(status(declared("a")))
	n.RecordMissedACK(0)
	later := Instant(time.Minute)
	n.RecordMissedACK(later)
	if !n.IsSetAside(later + Instant(10*time.Second) - 1) {
		t.Error("the second miss in a row sets aside for less than 10 s")
	}
}
