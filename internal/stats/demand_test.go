package stats

import (
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/health"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// waitedJob makes a job that has ended, whose request waited for a free slot.
func waitedJob(d core.Direction, waited time.Duration) *core.Job {
	job := endJob(d, core.StateDone, "")
	job.Utterance.WaitMS = waited.Milliseconds()
	return job
}

// TestDemandOfAllInstances checks that every instance knows the demand for a direction on all of them, and that what is longer ago than 5
// minutes does not count.
func TestDemandOfAllInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore()
		ids := []core.InstanceID{"i-1", "i-2"}
		deEN := core.Direction{Src: "de", Tgt: "en"}
		var readers []*Reader
		for _, id := range ids {
			in := newInstance(id, st, ids...)
			in.counter.load = func() Load { return Load{Waiting: 3, WaitingBy: map[core.Direction]int{enZH: 2, deEN: 1}} }
			for range 9 {
				in.counter.JobEnded(waitedJob(enZH, 0))
			}
			in.counter.RequestRefused(enZH, wire.AllCandidatesFullOrFailed, 3*time.Second)
			if _, known := in.reader.Demand(enZH); known || in.reader.Demanded() != nil {
				t.Error("the demand is known before there is a snapshot")
			}
			stop := in.run()
			defer stop()
			readers = append(readers, in.reader)
		}
		time.Sleep(15 * time.Second)
		for i, r := range readers {
			d, known := r.Demand(enZH)
			if !known || d.Jobs != 18 || d.Refused != 2 || d.Waiting != 4 || d.WaitP95 == nil || *d.WaitP95 < 2500 || *d.WaitP95 > 3500 {
				t.Errorf("%s: en→zh %+v, %v", ids[i], d, known)
			}
			if d, known := r.Demand(deEN); !known || d != (Demand{Waiting: 2}) {
				t.Errorf("%s: de→en %+v, %v", ids[i], d, known)
			}
			if d, known := r.Demand(core.Direction{Src: "fr", Tgt: "en"}); !known || d != (Demand{}) {
				t.Errorf("%s: fr→en %+v, %v", ids[i], d, known)
			}
			if diff := cmp.Diff([]core.Direction{deEN, enZH}, r.Demanded()); diff != "" {
				t.Errorf("%s: directions (-want +got):\n%s", ids[i], diff)
			}
		}
		time.Sleep(6 * time.Minute)
		if d, known := readers[0].Demand(enZH); !known || d != (Demand{Waiting: 4}) {
			t.Errorf("6 minutes later: en→zh %+v, %v", d, known)
		}
	})
}

// TestWaitsAreBounded checks that the number of directions is limited, and prints what an instance publishes at most.
func TestWaitsAreBounded(t *testing.T) {
	t.Parallel()
	var w waits
	now := time.Now()
	for minute := range 5 {
		w.advance(now.Add(time.Duration(minute) * time.Minute))
		for i := range 1000 {
			for _, waited := range []time.Duration{0, time.Second, 5 * time.Second} {
				w.add(fmt.Sprintf("q%02x→q%02x", minute, i), waited)
			}
		}
	}
	sum := w.sum()
	requests := uint64(0)
	for _, d := range sum {
		for _, n := range d {
			requests += n
		}
	}
	body, err := json.Marshal(sum)
	t.Logf("%d directions: %d bytes", len(sum), len(body))
	if len(sum) > health.MaxNames+1 || requests != 15_000 || err != nil || len(body) > 16<<10 {
		t.Errorf("%d directions with %d requests, %d bytes, %v", len(sum), requests, len(body), err)
	}
	w.advance(now.Add(time.Hour))
	if len(w.sum()) != 0 {
		t.Error("waits of an hour ago are counted")
	}
}

// TestDemandOfOtherVersions checks that broken waits of another instance do no harm.
func TestDemandOfOtherVersions(t *testing.T) {
	t.Parallel()
	var p published
	body := `{"seq":1,"waits":{"a→b":null,"c→d":"x","e→f":[2,5],"g":[1,1]},"waiting":{"a→b":-3,"e→f":2}}`
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		t.Fatal(err)
	}
	c := newStepCounts()
	addDurations(c.waits, p.Waits)
	got := demandOf(newTally(), c)
	if len(got) != 2 || *got["e→f"].WaitP95 != 2 {
		t.Errorf("the demand is %+v", got)
	}
	sum := make(map[string]*telemetry.Durations)
	addDurations(sum, nil)
	if len(sum) != 0 {
		t.Errorf("nothing is %v", sum)
	}
}
