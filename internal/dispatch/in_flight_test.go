package dispatch

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
)

func entryOf(id core.JobID, token core.Token) *inFlightJob {
	job := &core.Job{ID: id, Token: token, State: core.StateDispatched, Version: 1}
	return &inFlightJob{id: id, job: job, deadline: time.Now().Add(time.Hour), attemptEnds: time.Now().Add(time.Minute)}
}

func TestInFlightTableHasOneEntryPerJob(t *testing.T) {
	t.Parallel()
	table := newInFlightTable()
	first := table.add(entryOf("job-1", "i.1"))
	if again := table.add(entryOf("job-1", "i.2")); again != first || table.len() != 1 {
		t.Errorf("a second entry was added, %d jobs", table.len())
	}
	for i := range 100 {
		e := entryOf(core.JobID(fmt.Sprint("more-", i)), "i.3")
		e.job.Direction = core.Direction{Src: "en", Tgt: "zh"}
		table.add(e)
	}
	want := map[core.Direction]int{{}: 1, {Src: "en", Tgt: "zh"}: 100}
	if diff := cmp.Diff(want, table.countByDirection()); diff != "" {
		t.Errorf("jobs by direction (-want +got):\n%s", diff)
	}
	empty := table.whenEmpty()
	for i := range 100 {
		table.remove(core.JobID(fmt.Sprint("more-", i)))
	}
	table.remove("job-unknown")
	select {
	case <-empty:
		t.Error("the table is reported as empty with a job in it")
	default:
	}
	table.remove("job-1")
	select {
	case <-empty:
	default:
		t.Errorf("the table is not reported as empty, %d jobs", table.len())
	}
	if table.record("job-1") != nil {
		t.Error("a removed job still has a record here")
	}
}

// A job that a run has continued since its record was read stays in the table.
func TestRemoveUnlessContinued(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		continued func(*inFlightJob)
		stays     bool
	}{
		"as it was read":      {func(*inFlightJob) {}, false},
		"a node is selected":  {func(f *inFlightJob) { f.beginSelection(f.job) }, true},
		"moved to a new node": {func(f *inFlightJob) { f.setMoved(&core.Job{ID: "job-1", Version: 2}, new(fleet.Node), time.Now()) }, true},
	} {
		table := newInFlightTable()
		f := table.add(entryOf("job-1", "i.1"))
		read := f.record()
		c.continued(f)
		table.removeUnlessContinued(read)
		if stays := table.get("job-1") != nil; stays != c.stays {
			t.Errorf("%s: the job stays %v, want %v", name, stays, c.stays)
		}
	}
}

// The timer of a phase fires at the earliest of its own end, the attempt's and the job's, and only for the current attempt.
func TestPhaseTimer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var fired atomic.Int64
		onTimer := func() { fired.Add(1) }
		wantFired := func(want int64) {
			t.Helper()
			synctest.Wait()
			if got := fired.Load(); got != want {
				t.Errorf("the timer fired %d times, want %d", got, want)
			}
		}
		f := entryOf("job-1", "i.1")
		f.arm("i.0", phaseACK, time.Now().Add(time.Second), onTimer) // of an earlier attempt
		time.Sleep(2 * time.Second)
		wantFired(0)
		f.arm("i.1", phaseACK, time.Now().Add(time.Second), onTimer)
		time.Sleep(time.Second)
		wantFired(1)
		f.arm("i.1", phaseRunning, time.Time{}, onTimer)
		f.arm("i.1", phaseACK, time.Now().Add(time.Second), onTimer) // the node has acknowledged: its ACK is not waited for
		time.Sleep(10 * time.Second)
		wantFired(1)
		time.Sleep(time.Minute)
		wantFired(2) // the attempt has ended
		f.end()
		f.arm("i.1", phaseRunning, time.Now(), onTimer)
		time.Sleep(time.Hour)
		wantFired(2)
	})
}
