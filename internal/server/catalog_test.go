package server_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/health"
	"github.com/lingua-scheduler/lingua/internal/lab"
	"github.com/lingua-scheduler/lingua/wire"
)

// startWithModelHub starts a scheduler with a ModelHub, which has the services nmt-1 and tts-1.
func startWithModelHub(t *testing.T, fault lab.Fault) (*testScheduler, *lab.ModelHub) {
	t.Helper()
	hub := lab.NewModelHub("hub-token",
		health.HubService{ServiceID: "nmt-1", Name: "Translation", Type: "nmt", Versions: []string{"2", "1"}}, health.HubService{ServiceID: "tts-1"})
	hub.SetFault(fault)
	srv := httptest.NewServer(hub)
	t.Cleanup(srv.Close) // after the scheduler has stopped
	ts := startScheduler(t, func(c *config.Config) {
		c.Scheduler.ModelHub = config.ModelHub{URL: srv.URL + lab.ServicesPath + "?key=hunter2", RefreshSeconds: 1, TimeoutMS: 10_000, Token: "hub-token"}
	})
	return ts, hub
}

// TestExplainNamesServices: an explanation has the names and versions of the ModelHub, for the required services and those of nodes.
func TestExplainNamesServices(t *testing.T) {
	t.Parallel()
	ts, hub := startWithModelHub(t, lab.FaultNone)
	ts.registerNode("n1", object{"installed_services": allServices()})
	body := dispatchBody(object{"options": object{"required_services": []string{"nmt-1", "tts-1", "odd"}}})
	want := []wire.CatalogService{
		{ServiceID: "nmt-1", Listed: true, Name: "Translation", Type: "nmt", Versions: []string{"2", "1"}}, {ServiceID: "tts-1", Listed: true}, {ServiceID: "odd"},
	}
	var x wire.ExplainResponse
	ts.eventually("the catalog is fetched", func() bool {
		x = ts.explain(body)
		return cmp.Equal(want, x.RequiredServices)
	})
	services := []wire.ExplainService{
		{ServiceID: "nmt-1", Name: "Translation", Version: "1", LatestVersion: "2", Type: "nmt", Status: "ready"}, {ServiceID: "tts-1", Version: "1", Type: "tts", Status: "ready"},
	}
	if diff := cmp.Diff(services, x.Nodes[0].Services); diff != "" {
		t.Errorf("services of the node (-want +got)\n%s", diff)
	}

	// What is known stays when the ModelHub fails, and no dispatch and no answer of /readyz depends on it.
	for _, fault := range []lab.Fault{lab.FaultFail, lab.FaultHang} {
		hub.SetFault(fault)
		before, _ := hub.Requests("")
		ts.eventually("the catalog is refreshed", func() bool {
			now, _ := hub.Requests("")
			return now > before
		})
		if diff := cmp.Diff(want, ts.explain(body).RequiredServices); diff != "" {
			t.Errorf("%s (-want +got)\n%s", fault, diff)
		}
		if a := ts.get("/readyz"); a.status != 200 {
			t.Errorf("%s: /readyz answers %d", fault, a.status)
		}
		d, n := ts.dispatchAndReceive(dispatchBody(nil))
		n.done(d, nil).expectOK()
	}
	if text := ts.log.String() + string(ts.get("/metrics").body); strings.Contains(text, "hunter2") || strings.Contains(text, "hub-token") {
		t.Error("the log or the metrics have a secret")
	}
}

// TestModelHubThatNeverAnswers: the scheduler is ready, dispatches, and explains without names.
func TestModelHubThatNeverAnswers(t *testing.T) {
	t.Parallel()
	ts, _ := startWithModelHub(t, lab.FaultHang) // startScheduler waits until /readyz answers 200
	ts.registerNode("n1", object{"installed_services": allServices()})
	d, n := ts.dispatchAndReceive(dispatchBody(nil))
	n.done(d, nil).expectOK()
	x := ts.explain(dispatchBody(object{"options": object{"required_services": []string{"nmt-1"}}}))
	if diff := cmp.Diff([]wire.CatalogService{{ServiceID: "nmt-1"}}, x.RequiredServices); diff != "" || x.Verdict != "OK" {
		t.Errorf("%s (-want +got)\n%s", x.Verdict, diff)
	}
	if text := string(ts.get("/metrics").body); !strings.Contains(text, "\nlingua_catalog_services 0\n") || !strings.Contains(text, "\nlingua_catalog_age_seconds ") {
		t.Error("the metrics of the catalog are missing")
	}
}

// TestUnavailableServiceIsRefreshed: a report of a service makes the scheduler ask the ModelHub for that service.
func TestUnavailableServiceIsRefreshed(t *testing.T) {
	t.Parallel()
	ts, hub := startWithModelHub(t, lab.FaultNone)
	ts.registerNode("n1", object{"installed_services": allServices()})
	required := dispatchBody(object{"options": object{"required_services": []string{"nmt-1"}}})
	ts.eventually("the catalog is fetched", func() bool { return ts.explain(required).RequiredServices[0].Listed })
	ts.reportUnavailable(object{"node_id": "n1", "service_id": "nmt-1"})
	ts.eventually("the ModelHub is asked for the service", func() bool {
		_, asked := hub.Requests("nmt-1")
		return asked == 1
	})
}
