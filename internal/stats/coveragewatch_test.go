package stats

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/journal"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// coverageOfDirections makes a coverage in which the directions have so many ready nodes.
func coverageOfDirections(ready map[string]int) (covers []coveredBy) {
	for name, n := range ready {
		d, _ := parseDirection(name)
		covers = append(covers, coveredBy{fleet.Cover{Direction: d}, fleet.Covered{Nodes: 1, Ready: n}})
	}
	return covers
}

// takeDetails returns the details of the events that are pending, and removes them.
func (w *coverageWatch) takeDetails() (details []string) {
	for _, e := range w.pending {
		details = append(details, e.Detail)
	}
	w.pending = nil
	return details
}

// TestCoverageWatch checks which changes of the coverage are reported.
func TestCoverageWatch(t *testing.T) {
	t.Parallel()
	w, now := newCoverageWatch(), time.UnixMilli(1_800_000_000_000)
	demand := counts{"en→zh": 5, "zh→en": 1}
	step := func(after time.Duration, ready map[string]int, want ...string) {
		t.Helper()
		now = now.Add(after)
		before := len(w.uncovered)
		changed := w.update(coverageOfDirections(ready), demand, now)
		if diff := cmp.Diff(want, w.takeDetails()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		if changed != (len(want) > 0 || len(w.uncovered) != before) {
			t.Errorf("changed %v with %v", changed, want)
		}
	}
	step(0, map[string]int{"en→zh": 2, "zh→en": 1, "fr→en": 0}) // nobody wants the last one
	step(5*time.Second, map[string]int{"en→zh": 0, "zh→en": 0, "fr→en": 0})
	step(5*time.Second, map[string]int{"en→zh": 0, "zh→en": 1, "fr→en": 0}) // one has returned in time
	step(5*time.Second, map[string]int{"en→zh": 0, "zh→en": 0}, "en→zh has no ready node")
	step(5*time.Second, map[string]int{"en→zh": 0, "zh→en": 1})
	w = decodeWatch([]byte(`{"en→zh":1800000005000}`)) // another leader
	step(15*time.Second, map[string]int{"en→zh": 0, "zh→en": 1})
	step(5*time.Second, map[string]int{"en→zh": 3, "zh→en": 1}, "en→zh has a ready node again after 35s")
	step(5*time.Second, map[string]int{"en→zh": 0, "zh→en": 1})
	step(10*time.Second, map[string]int{"en→zh": 0, "zh→en": 1}, "en→zh has no ready node")
	delete(demand, "en→zh")
	step(5*time.Second, map[string]int{"en→zh": 0, "zh→en": 1})
	if len(w.uncovered)+len(w.suspects) != 0 {
		t.Errorf("a direction that nobody wants any more is remembered: %v, %v", w.uncovered, w.suspects)
	}
	for _, body := range []string{"", "null", "[]", `{"a":"b"}`, `{"index":1,"tally":{}}`} {
		if w := decodeWatch([]byte(body)); len(w.uncovered) != 0 {
			t.Errorf("%s is read as %v", body, w.uncovered)
		}
	}
}

// TestCoverageEventsAreBounded checks that many directions at once make few events.
func TestCoverageEventsAreBounded(t *testing.T) {
	t.Parallel()
	w, now, demand, ready := newCoverageWatch(), time.Now(), counts{}, make(map[string]int)
	for i := range 150 {
		name := fmt.Sprintf("q%02x→en", i)
		demand[name], ready[name] = 1, 0
	}
	w.update(coverageOfDirections(ready), demand, now)
	w.update(coverageOfDirections(ready), demand, now.Add(uncoveredGrace))
	if got := w.takeDetails(); len(got) != maxCoverageEvents+1 || got[maxCoverageEvents] != "140 more directions have no ready node" {
		t.Errorf("%d events: %q", len(got), got)
	}
	for name := range ready {
		ready[name] = 1
	}
	w.update(coverageOfDirections(ready), demand, now.Add(time.Minute))
	if got := w.takeDetails(); len(got) != maxCoverageEvents+1 || got[maxCoverageEvents] != "140 more directions have a ready node again" {
		t.Errorf("%d events: %q", len(got), got)
	}
}

// TestCoverageEvents checks that the leader records the loss of the last node of a direction once, that another leader does not record it
// again, and that one with a view that is not complete records nothing.
func TestCoverageEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore()
		ids := []core.InstanceID{"i-1", "i-2"}
		recorder := journal.NewEvents("i-1", telemetry.New().AuditDropped.WithLabelValues("store"), discardLog)
		node := func(epoch int64, health core.Health) store.NodeStatus {
			n := &core.Node{ID: "n", Epoch: core.Epoch(epoch), Declaration: core.Declaration{Health: health, MaxJobs: 1, Callback: "http://127.0.0.1:9/", Capability: core.Capability{Semantic: core.LangSet{"en", "zh"}, AnyPair: true}}}
			n.Normalise()
			return store.NodeStatus{Node: n}
		}
		var all []*fakeInstance
		stops := make(map[core.InstanceID]func())
		for _, id := range ids {
			in := newInstance(id, st, ids...)
			in.generator.Events = recorder
			in.generator.Fleet.SetPartial(true) // nodes are missing
			in.counter.JobEnded(endJob(enZH, core.StateDone, ""))
			all, stops[id] = append(all, in), in.run()
		}
		details := func() (list []string) {
			t.Helper()
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			recorder.Run(ended, st) // writes what is queued
			page, err := journal.EventLog(st).Read(t.Context(), store.ReadLogParams{Limit: 100})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range page.Entries {
				list = append(list, fmt.Sprint(e.Kind, " ", e.Direction, " ", e.Ready))
			}
			return list
		}
		time.Sleep(time.Minute)
		if got := details(); len(got) != 0 {
			t.Errorf("events while nodes are missing: %v", got)
		}
		for _, in := range all {
			in.generator.Fleet.Update(node(1, core.HealthReady))
			in.generator.Fleet.SetPartial(false)
		}
		time.Sleep(time.Minute)
		for _, in := range all {
			in.generator.Fleet.Update(node(2, core.HealthDraining))
		}
		time.Sleep(time.Minute)
		want := []string{"coverage en→zh 0"}
		if diff := cmp.Diff(want, details()); diff != "" {
			t.Errorf("events after the last node is gone (-want +got):\n%s", diff)
		}
		leader := core.InstanceID(wantAnswer(t, all[0].reader).GeneratedBy)
		stops[leader]()
		time.Sleep(time.Minute)
		if diff := cmp.Diff(want, details()); diff != "" {
			t.Errorf("events of another leader (-want +got):\n%s", diff)
		}
		for _, in := range all {
			in.generator.Fleet.Update(node(3, core.HealthReady))
		}
		time.Sleep(time.Minute)
		if diff := cmp.Diff(append(want, "coverage en→zh 1"), details()); diff != "" {
			t.Errorf("events after a node is ready again (-want +got):\n%s", diff)
		}
		for _, in := range all {
			if in.id != leader {
				stops[in.id]()
			}
		}
	})
}
