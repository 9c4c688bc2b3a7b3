package core

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/test/sources"
)

// declaredReasons reads the constants from the source, so that a new reason must be added to the table.
func declaredReasons(t *testing.T) []Reason {
	t.Helper()
	names, err := sources.Names(".", `\bReason += "(\w*)"`)
	if err != nil {
		t.Fatal(err)
	}
	all := make([]Reason, 0, len(names))
	for _, name := range names {
		all = append(all, Reason(name))
	}
	return all
}

func TestEveryReasonIsInTheTable(t *testing.T) {
	t.Parallel()
	declared := declaredReasons(t)
	slices.Sort(declared)
	if diff := cmp.Diff(declared, slices.Sorted(maps.Keys(reasons))); diff != "" {
		t.Errorf("reasons (-declared +in the table):\n%s", diff)
	}
}

// TestReasonTraitsFitTogether: a reason is at most one of incapable, soft and a refusal, and what follows from a trait holds.
func TestReasonTraitsFitTogether(t *testing.T) {
	t.Parallel()
	for _, r := range append(declaredReasons(t), "SOMETHING_ELSE") {
		n := 0
		for _, has := range []bool{r.Incapable(), r.Soft(), r.Refusal()} {
			if has {
				n++
			}
		}
		switch {
		case n > 1:
			t.Errorf("%s is several things at once", r)
		case r.CostsNoAttempt() && !r.ConfirmsRelease():
			t.Errorf("an attempt that ended for %s does not count, and the node may have the job", r)
		case r.Incapable() && (r.WorthWaiting() || r.NodeWide()):
			t.Errorf("%s does not change, and is of the moment", r)
		case r.OfPool() == "" || r.Requirement() == "":
			t.Errorf("%q has no label", r)
		}
	}
}

func TestJobRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		state  State
		reason Reason
		want   bool
	}{
		{StateFailed, ReasonAllFull, true},
		{StateFailed, ReasonDependencyDown, true},
		{StateFailed, ReasonMaxRetry, false},
		{StateFailed, ReasonNone, false},
		{StateRetrying, ReasonAllFull, false}, // not over yet
		{StateDone, ReasonAllFull, false},
		{StateCancelled, ReasonDependencyDown, false},
	} {
		j := Job{State: c.state, Reason: c.reason}
		if got := j.Refused(); got != c.want {
			t.Errorf("%s for %q: Refused() = %v, want %v", c.state, c.reason, got, c.want)
		}
	}
}
