package node

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lingua-scheduler/lingua/wire"
)

// addAttempt adds a running attempt to a table.
func addAttempt(t *testing.T, table *attemptTable, id string) (a *attempt, ctx context.Context) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	a = &attempt{key: wire.ActiveJob{JobID: id, AttemptID: 1}, cancel: cancel, job: newJob(&wire.JobAssign{}, time.Now())}
	table.add(a)
	return a, ctx
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestAttemptTableIsFull(t *testing.T) {
	t.Parallel()
	const slots, maxUnacked = 2, 3 * frameOverhead
	next := wire.ActiveJob{JobID: "next", AttemptID: 1}
	table := newAttemptTable()
	first, _ := addAttempt(t, &table, "a")
	if table.isFull(next, slots, maxUnacked) {
		t.Error("full with one of two slots taken")
	}
	addAttempt(t, &table, "b")
	if !table.isFull(next, slots, maxUnacked) {
		t.Error("not full with all slots taken")
	}
	if table.finish(first, failure(first.key, reasonFailed)); table.isFull(next, slots, maxUnacked) {
		t.Error("a finished attempt takes a slot")
	}
	if !table.isFull(next, slots, frameOverhead) {
		t.Error("not full at the limit of unacknowledged outcomes")
	}
	table.listBytes = maxListBytes
	if !table.isFull(next, slots, maxUnacked) {
		t.Error("not full at the limit of the list")
	}
}

// All counters of a table are zero when its attempts are gone, whatever way they took.
func TestAttemptTableCounters(t *testing.T) {
	t.Parallel()
	table := newAttemptTable()
	idle := table.whenIdle()
	if !isClosed(idle) {
		t.Error("an empty table is not idle")
	}
	acked, _ := addAttempt(t, &table, "acked")
	cancelled, ctx := addAttempt(t, &table, "cancelled")
	idle = table.whenIdle()
	if !table.finish(acked, failure(acked.key, reasonFailed)) {
		t.Error("the outcome of a running attempt is not delivered")
	}
	table.stop(acked, stageDropped)
	table.stop(cancelled, stageCancelled)
	if ctx.Err() == nil {
		t.Error("the handler of a stopped attempt is not cancelled")
	}
	if isClosed(idle) {
		t.Error("idle while a handler runs")
	}
	if table.finish(cancelled, failure(cancelled.key, reasonFailed)) {
		t.Error("the outcome of a cancelled attempt is delivered")
	}
	if !isClosed(idle) || len(table.byKey) != 0 || table.running != 0 || table.listBytes != 0 || table.unackedBytes != 0 {
		t.Errorf("not empty: %+v", table)
	}
}

func TestAttemptTableList(t *testing.T) {
	t.Parallel()
	table := newAttemptTable()
	if list := table.list(true); list == nil || len(list) != 0 {
		t.Errorf("list of an empty table: %#v, want an empty list that is not nil", list)
	}
	running, _ := addAttempt(t, &table, "running")
	finished, _ := addAttempt(t, &table, "finished")
	dropped, _ := addAttempt(t, &table, "dropped")
	running.job.audio.add(0, []byte("a"), false)
	finished.job.audio.add(0, []byte("a"), false)
	finished.job.audio.add(1, []byte("b"), true)
	table.finish(finished, failure(finished.key, reasonFailed))
	table.stop(dropped, stageDropped)
	byID := cmpopts.SortSlices(func(a, b wire.ActiveAttempt) bool { return a.JobID < b.JobID })
	want := []wire.ActiveAttempt{{ActiveJob: finished.key, AudioChunks: 2}, {ActiveJob: running.key, AudioChunks: 1}}
	if diff := cmp.Diff(want, table.list(true), byID); diff != "" {
		t.Errorf("with audio (-want +got):\n%s", diff)
	}
	want = []wire.ActiveAttempt{{ActiveJob: finished.key}, {ActiveJob: running.key}}
	if diff := cmp.Diff(want, table.list(false), byID); diff != "" {
		t.Errorf("without audio (-want +got):\n%s", diff)
	}
}

// An outcome is kept until its deadline, or the end of its handler if that is later, and then for keepOutcome.
func TestAttemptExpiry(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, c := range map[string]struct {
		finished, deadline time.Duration // ago
		want               bool
	}{
		"finished recently":     {30 * time.Second, time.Hour, false},
		"deadline recently":     {time.Hour, 30 * time.Second, false},
		"deadline in future":    {time.Hour, -time.Hour, false},
		"finished and deadline": {2 * time.Minute, 90 * time.Second, true},
	} {
		a := &attempt{finishedAt: now.Add(-c.finished), deadline: now.Add(-c.deadline)}
		if got := a.isExpired(time.Minute); got != c.want {
			t.Errorf("%s: expired %v, want %v", name, got, c.want)
		}
	}
}
