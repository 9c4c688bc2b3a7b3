package nodes_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestUnavailableServiceIsQueued: a report is queued, as of the node's epoch and version, and makes no call to the store.
func TestUnavailableServiceIsQueued(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		tenant := core.TenantID("acme")
		n := h.add("a", 1, func(p *core.Change) { p.Tenant = tenant })
		h.store.down.Store(true)
		u := core.UnavailableReport{UnavailableService: core.UnavailableService{Node: "a", Service: "asr", Version: "2", Reason: core.UnavailableInstalling}}
		if err := h.registry.ReportUnavailable(t.Context(), u); err != nil {
			t.Fatal(err)
		}
		h.store.down.Store(false)
		slots := 2
		if _, err := h.registry.Heartbeat(t.Context(), nodes.Heartbeat{Node: "a", Change: core.Change{Declaration: core.Declaration{MaxJobs: slots}}}); err != nil {
			t.Fatal(err)
		}
		if err := h.registry.ReportUnavailable(t.Context(), core.UnavailableReport{UnavailableService: core.UnavailableService{Node: "a", Service: "nmt"}}); err != nil {
			t.Fatal(err)
		}
		want := []core.UnavailableService{
			{Node: "a", Tenant: "acme", Epoch: n.Epoch, NodeVersion: n.Version, Service: "asr", Version: "2",
				Reason: core.UnavailableInstalling},
			{Node: "a", Tenant: "acme", Epoch: n.Epoch, NodeVersion: n.Version + 1, Service: "nmt"},
		}
		if diff := cmp.Diff(want, h.queued.services); diff != "" {
			t.Errorf("queued (-want +got):\n%s", diff)
		}
		if len(h.jobs.failed) != 0 {
			t.Errorf("a report without a job failed %v", h.jobs.failed)
		}
		wantCode(t, h.registry.ReportUnavailable(t.Context(), core.UnavailableReport{UnavailableService: core.UnavailableService{Node: "unknown", Service: "asr"}}), wire.NotFound)
		if len(h.queued.services) != 2 {
			t.Errorf("the report of an unknown node is queued: %+v", h.queued.services)
		}
	})
}

// TestUnavailableReportFailsTheJobAtOnce: the job that the node gave up fails with the report, however many reports there were.
func TestUnavailableReportFailsTheJobAtOnce(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		h.add("a", 1)
		h.jobs.holds = true
		began := time.Now()
		for range 10_000 {
			if err := h.registry.ReportUnavailable(t.Context(), core.UnavailableReport{UnavailableService: core.UnavailableService{Node: "a", Service: "s"}}); err != nil {
				t.Fatal(err)
			}
		}
		u := core.UnavailableReport{UnavailableService: core.UnavailableService{Node: "a", Service: "s"}, Job: "job-1", Attempt: 2}
		if err := h.registry.ReportUnavailable(t.Context(), u); err != nil {
			t.Fatal(err)
		}
		want := []dispatch.Report{{Job: "job-1", Holder: core.Holder{Attempt: 2, Node: "a"}}}
		if diff := cmp.Diff(want, h.jobs.failed); diff != "" || h.jobs.failReason != core.ReasonModelNotAvailable ||
			time.Since(began) != 0 {
			t.Errorf("failed for %s after %v (-want +got):\n%s", h.jobs.failReason, time.Since(began), diff)
		}
	})
}

// A report about a job that the node never held changes nothing; one about a job that it no longer holds is only queued.
func TestUnavailableReportAboutAJobOfAnotherNode(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		h.add("a", 1)
		u := core.UnavailableReport{UnavailableService: core.UnavailableService{Node: "a", Service: "asr"}, Job: "job-1", Attempt: 1}
		h.jobs.checkErr = errors.New("not the holder")
		if err := h.registry.ReportUnavailable(t.Context(), u); !errors.Is(err, h.jobs.checkErr) {
			t.Errorf("error %v, want that of CheckHolder", err)
		}
		if len(h.queued.services) != 0 {
			t.Errorf("queued %+v", h.queued.services)
		}
		h.jobs.checkErr = nil
		if err := h.registry.ReportUnavailable(t.Context(), u); err != nil {
			t.Fatal(err)
		}
		if len(h.queued.services) != 1 || len(h.jobs.failed) != 0 {
			t.Errorf("queued %+v, failed %v; want the service only", h.queued.services, h.jobs.failed)
		}
	})
}
