package core

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// at returns a time of the store in seconds.
func at(s int) time.Time { return time.Unix(int64(s), 0) }

// startAttempt assigns the job to a node and records the attempt.
func startAttempt(j *Job, n int, node NodeID, token Token, when int) {
	j.Holder, j.Token = Holder{Attempt: n, Node: node, Epoch: 5}, token
	j.BeginAttempt(at(when))
}

func TestHistoryOfAttempts(t *testing.T) {
	t.Parallel()
	var j Job
	startAttempt(&j, 1, "a", "t1", 10)
	j.EndAttempt(at(11), ReasonNodeBusy)
	startAttempt(&j, 1, "b", "t2", 12)
	j.EndAttempt(at(13), ReasonACKTimeout)
	startAttempt(&j, 2, "c", "t3", 14)
	want := []Attempt{
		{Holder: Holder{1, "a", 5}, Token: "t1", Started: at(10), Ended: at(11), Reason: ReasonNodeBusy},
		{Holder: Holder{1, "b", 5}, Token: "t2", Started: at(12), Ended: at(13), Reason: ReasonACKTimeout},
		{Holder: Holder{2, "c", 5}, Token: "t3", Started: at(14)},
	}
	if diff := cmp.Diff(want, j.History); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
}

// TestRepeatedEndIsIgnored checks that a step which is repeated after a lost reply does not overwrite the end of the attempt.
func TestRepeatedEndIsIgnored(t *testing.T) {
	t.Parallel()
	var j Job
	j.EndAttempt(at(1), ReasonNodeLost) // nothing began: nothing ends
	if len(j.History) != 0 {
		t.Errorf("an end without a beginning left %v", j.History)
	}
	startAttempt(&j, 1, "a", "t1", 10)
	j.EndAttempt(at(11), ReasonACKTimeout)
	j.EndAttempt(at(99), ReasonNodeLost)
	want := []Attempt{{Holder: Holder{1, "a", 5}, Token: "t1", Started: at(10), Ended: at(11), Reason: ReasonACKTimeout}}
	if diff := cmp.Diff(want, j.History); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
}

// TestEndWithoutAReason checks that a successful attempt, which has no reason, ends.
func TestEndWithoutAReason(t *testing.T) {
	t.Parallel()
	var j Job
	startAttempt(&j, 1, "a", "t1", 10)
	j.EndAttempt(at(11), ReasonNone)
	j.EndAttempt(at(12), ReasonDeadline)
	if got := j.History[0]; !got.Ended.Equal(at(11)) || got.Reason != ReasonNone {
		t.Errorf("ended at %v for %q, want %v without a reason", got.Ended, got.Reason, at(11))
	}
}

func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	var j Job
	const lines = 3 * MaxHistory
	for i := range lines {
		startAttempt(&j, 1, NodeID(fmt.Sprint("n", i)), Token(fmt.Sprint("t", i)), i)
		if want := min(i+1, MaxHistory); len(j.History) != want {
			t.Fatalf("after %d lines there are %d, want %d", i+1, len(j.History), want)
		}
		j.EndAttempt(at(i), ReasonNodeBusy)
	}
	// The oldest went, the newest stayed, in order.
	for i, line := range j.History {
		if want := NodeID(fmt.Sprint("n", lines-MaxHistory+i)); line.Node != want {
			t.Errorf("line %d is of %s, want %s", i, line.Node, want)
		}
	}
}

func TestPastToken(t *testing.T) {
	t.Parallel()
	var j Job
	startAttempt(&j, 1, "a", "t1", 10)
	j.EndAttempt(at(11), ReasonNodeBusy)
	startAttempt(&j, 1, "b", "t2", 12)
	j.EndAttempt(at(13), ReasonACKTimeout)
	startAttempt(&j, 2, "a", "t3", 14)
	j.EndAttempt(at(15), ReasonNodeFailed)
	startAttempt(&j, 2, "b", "t4", 16)
	j.EndAttempt(at(17), ReasonNodeBusy)
	startAttempt(&j, 2, "b", "t5", 18) // the same node once more: its newest lease is the one it may still hold
	j.EndAttempt(at(19), ReasonNodeFailed)
	startAttempt(&j, 3, "c", "t6", 20)
	for _, c := range []struct {
		attempt int
		node    NodeID
		token   Token
		had     bool
	}{
		{1, "a", "t1", true},
		{1, "b", "t2", true},
		{2, "a", "t3", true},
		{2, "b", "t5", true},
		{1, "c", "", false}, // the right attempt, a node that never had it
		{3, "a", "", false}, // the right node, an attempt it never had
		{0, "", "", false},
	} {
		token, had := j.PastToken(c.attempt, c.node)
		if token != c.token || had != c.had {
			t.Errorf("PastToken(%d, %s) = %q, %v, want %q, %v", c.attempt, c.node, token, had, c.token, c.had)
		}
	}
}

// TestPastTokenIsNeverOfTheCurrentAttempt checks that the token of the running attempt, which would release its slot, is
// not returned as a past one.
func TestPastTokenIsNeverOfTheCurrentAttempt(t *testing.T) {
	t.Parallel()
	var j Job
	startAttempt(&j, 1, "a", "t1", 10)
	if token, had := j.PastToken(1, "a"); had {
		t.Errorf("PastToken gives %q, of an attempt that has not ended", token)
	}
	j.EndAttempt(at(11), ReasonNodeFailed)
	if token, had := j.PastToken(1, "a"); !had || token != "t1" {
		t.Errorf("after its end PastToken gives %q, %v, want t1", token, had)
	}
}

// TestCloneHasItsOwnHistory checks that a change of a copy does not reach the record.
func TestCloneHasItsOwnHistory(t *testing.T) {
	t.Parallel()
	full := func() *Job {
		j := &Job{ID: "job-1", State: StateDispatched, Detail: "d"}
		for i := range MaxHistory {
			startAttempt(j, 1, NodeID(fmt.Sprint("n", i)), "t", i)
		}
		return j
	}
	for name, change := range map[string]func(*Job){
		"end":   func(j *Job) { j.EndAttempt(at(99), ReasonNodeLost) },
		"begin": func(j *Job) { j.BeginAttempt(at(99)) }, // at the bound it moves every line
		"edit":  func(j *Job) { j.History[0].Holder = Holder{9, "z", 9} },
		"state": func(j *Job) { j.State, j.Detail = StateDone, "" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			original := full()
			copied := original.Clone()
			if diff := cmp.Diff(*original, copied); diff != "" {
				t.Fatalf("the copy differs (-want +got):\n%s", diff)
			}
			change(&copied)
			if diff := cmp.Diff(full(), original); diff != "" {
				t.Errorf("a change of the copy reached the original (-want +got):\n%s", diff)
			}
			again := original.Clone()
			change(original)
			if diff := cmp.Diff(*full(), again); diff != "" {
				t.Errorf("a change of the original reached the copy (-want +got):\n%s", diff)
			}
		})
	}
}

// TestClonesDoNotShareCapacity checks that two copies do not append into the same array.
func TestClonesDoNotShareCapacity(t *testing.T) {
	t.Parallel()
	j := &Job{History: make([]Attempt, 0, 8)}
	startAttempt(j, 1, "a", "t1", 1)
	one, two := j.Clone(), j.Clone()
	startAttempt(&one, 2, "b", "t2", 2)
	startAttempt(&two, 2, "c", "t3", 2)
	if one.History[1].Node != "b" || two.History[1].Node != "c" {
		t.Errorf("they share a line: %v, %v", one.History[1], two.History[1])
	}
}
