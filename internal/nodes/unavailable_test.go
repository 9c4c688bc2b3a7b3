package nodes_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/wire"
)

func (h *harness) marks(id core.NodeID) []string {
	h.t.Helper()
	marks, err := h.mem.Marked(h.t.Context(), id)
	if err != nil {
		h.t.Fatal(err)
	}
	services := []string{}
	for _, m := range marks {
		services = append(services, m.Service)
	}
	slices.Sort(services)
	return services
}

func TestUnavailableServiceIsMarkedForAWhile(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		h.add("a", 1)
		if err := h.registry.ReportUnavailable(t.Context(), nodes.Unavailable{Node: "a", Service: "asr"}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"asr"}, h.marks("a")); diff != "" {
			t.Errorf("marks (-want +got):\n%s", diff)
		}
		if !h.fleet.Node("a").Marked(&core.Service{ID: "asr"}, h.fleet.Now()) {
			t.Error("the fleet does not have the mark")
		}
		if len(h.jobs.failed) != 0 {
			t.Errorf("a report without a job failed %v", h.jobs.failed)
		}
		time.Sleep(time.Minute)
		if marks := h.marks("a"); len(marks) != 0 || h.fleet.Node("a").Marked(&core.Service{ID: "asr"}, h.fleet.Now()) {
			t.Errorf("marks %v after their time", marks)
		}
		wantCode(t, h.registry.ReportUnavailable(t.Context(), nodes.Unavailable{Node: "unknown", Service: "asr"}), wire.NotFound)
	})
}

// A report over the rate marks nothing, but still fails the job that the node gave up.
func TestUnavailableReportOverTheRateFailsTheJob(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		h.add("a", 1)
		h.add("b", 1)
		h.jobs.holds = true
		for _, service := range []string{"s1", "s2", "s3"} {
			if err := h.registry.ReportUnavailable(t.Context(), nodes.Unavailable{Node: "a", Service: service}); err != nil {
				t.Fatal(err)
			}
		}
		u := nodes.Unavailable{Node: "a", Service: "s4", Job: "job-1", Attempt: 2}
		wantCode(t, h.registry.ReportUnavailable(t.Context(), u), wire.RateLimited)
		want := []dispatch.Report{{Job: "job-1", Holder: core.Holder{Attempt: 2, Node: "a"}}}
		if diff := cmp.Diff(want, h.jobs.failed); diff != "" || h.jobs.failReason != core.ReasonModelNotAvailable {
			t.Errorf("failed for %s (-want +got):\n%s", h.jobs.failReason, diff)
		}
		if diff := cmp.Diff([]string{"s1", "s2", "s3"}, h.marks("a")); diff != "" {
			t.Errorf("marks (-want +got):\n%s", diff)
		}
		u.Node = "b" // the rate is per node
		if err := h.registry.ReportUnavailable(t.Context(), u); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		u.Node = "a"
		if err := h.registry.ReportUnavailable(t.Context(), u); err != nil {
			t.Errorf("a minute later: %v", err)
		}
	})
}

// A report about a job that the node never held changes nothing; one about a job that it no longer holds only marks.
func TestUnavailableReportAboutAJobOfAnotherNode(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		h.add("a", 1)
		u := nodes.Unavailable{Node: "a", Service: "asr", Job: "job-1", Attempt: 1}
		h.jobs.checkErr = errors.New("not the holder")
		if err := h.registry.ReportUnavailable(t.Context(), u); !errors.Is(err, h.jobs.checkErr) {
			t.Errorf("error %v, want that of CheckHolder", err)
		}
		if marks := h.marks("a"); len(marks) != 0 {
			t.Errorf("marks %v", marks)
		}
		h.jobs.checkErr = nil
		if err := h.registry.ReportUnavailable(t.Context(), u); err != nil {
			t.Fatal(err)
		}
		if marks := h.marks("a"); len(marks) != 1 || len(h.jobs.failed) != 0 {
			t.Errorf("marks %v, failed %v; want the mark only", marks, h.jobs.failed)
		}
	})
}
