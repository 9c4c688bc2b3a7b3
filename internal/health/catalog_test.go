package health_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/health"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/lab"
)

func TestCatalogFollowsTheModelHub(t *testing.T) {
	runCatalog(t, func(h *catalogHarness) {
		began := time.Now()
		h.wantServices(asr, nmt)
		want := health.CatalogState{Configured: true, Services: 2, FetchedAt: began, LastSuccessAt: began}
		if diff := cmp.Diff(want, h.catalog.State()); diff != "" {
			t.Errorf("state (-want +got):\n%s", diff)
		}
		if s, ok := h.catalog.Lookup("nmt-en-es"); !ok || s.Name != nmt.Name {
			t.Errorf("lookup: %+v, %v", s, ok)
		}
		if _, ok := h.catalog.Lookup("tts-es"); ok {
			t.Error("a service that is not listed was found")
		}

		h.pass()
		state := h.catalog.State()
		if !state.FetchedAt.Equal(began) || !state.LastSuccessAt.After(began) {
			t.Errorf("after a refresh without a change: %+v", state)
		}
		sent := h.net.requests()
		if len(sent) != 2 || sent[1].Get("If-None-Match") == "" || sent[1].Get("If-Modified-Since") == "" || sent[0].Get("If-None-Match") != "" {
			t.Errorf("the requests are not conditional, apart from the first: %v", sent)
		}
		for _, r := range sent {
			if r.Get("Authorization") != "Bearer hub-token" || r.Get("Accept") != "application/json" || !strings.HasSuffix(r.url, "?key=hunter2") {
				t.Errorf("request %s with %v", r.url, r.Header)
			}
		}

		newer := asr
		newer.Versions = []string{"2.1", "2.0"}
		h.hub.SetServices(newer, tts)
		h.pass()
		h.wantServices(newer, tts)
		if got := h.catalog.State().FetchedAt; !got.After(began) {
			t.Errorf("fetched at %v", got)
		}
		want2 := map[string]float64{"ok": 2, "not_modified": 1}
		if diff := cmp.Diff(want2, series(t, h.metrics.Registry, "lingua_catalog_refreshes_total")); diff != "" {
			t.Errorf("refreshes (-want +got):\n%s", diff)
		}
	})
}

// TestCatalogSurvivesEveryFault: whatever the ModelHub does, the last list is served, and the state says what is wrong.
func TestCatalogSurvivesEveryFault(t *testing.T) {
	t.Parallel()
	for fault, text := range map[lab.Fault]string{
		lab.FaultFail: "the ModelHub answered 503", lab.FaultHang: "no answer within 3s", lab.FaultRubbish: "not JSON",
		lab.FaultEmpty: "no services", lab.FaultOversized: "too large", lab.FaultRedirect: "redirects to another host",
	} {
		t.Run(string(fault), func(t *testing.T) {
			runCatalog(t, func(h *catalogHarness) {
				before := h.catalog.State()
				h.hub.SetFault(fault)
				for n := 1; n <= 2; n++ {
					h.pass()
					h.wantServices(asr, nmt)
					state := h.catalog.State()
					if state.FailCount != n || !strings.Contains(state.LastError, text) || strings.Contains(state.LastError, "secret") || strings.Contains(state.LastError, "hunter2") {
						t.Errorf("failure %d: %+v, want %q", n, state, text)
					}
					if !state.LastSuccessAt.Equal(before.LastSuccessAt) || !state.FetchedAt.Equal(before.FetchedAt) {
						t.Errorf("failure %d counts as a success: %+v", n, state)
					}
					if !h.metrics.ModelHubDown() {
						t.Error("dispatches are not counted as during an outage of the ModelHub")
					}
				}
				h.hub.SetFault(lab.FaultNone)
				h.pass()
				if state := h.catalog.State(); state.FailCount != 0 || state.LastError != "" || !state.LastSuccessAt.After(before.LastSuccessAt) {
					t.Errorf("after it has recovered: %+v", state)
				}
				if h.metrics.ModelHubDown() {
					t.Error("dispatches are counted as during an outage of the ModelHub, which is over")
				}
			})
		})
	}
}

// TestCatalogOfAModelHubThatNeverAnswered: it is empty, and says why.
func TestCatalogOfAModelHubThatNeverAnswered(t *testing.T) {
	runCatalog(t, func(h *catalogHarness) {
		h.hub.SetFault(lab.FaultHang)
		var err error
		if h.catalog, err = health.NewCatalog(health.CatalogOptions{
			URL: "http://hub.example/", Refresh: time.Second, Timeout: time.Second, Transport: h.net, Metrics: h.metrics, Log: slog.New(slog.DiscardHandler),
		}); err != nil {
			t.Fatal(err)
		}
		h.catalog.RefreshList(h.t.Context())
		want := health.CatalogState{Configured: true, FailCount: 1, LastError: "no answer within 1s"}
		if diff := cmp.Diff(want, h.catalog.State()); diff != "" {
			t.Errorf("state (-want +got):\n%s", diff)
		}
	})
}

// TestCatalogBacksOff: after three failures in a row the interval doubles each time, up to 20 times, with jitter; one success ends it.
func TestCatalogBacksOff(t *testing.T) {
	runCatalog(t, func(h *catalogHarness) {
		h.hub.SetFault(lab.FaultFail)
		time.Sleep(90 * time.Minute)
		synctest.Wait()
		sent := h.net.requests()
		jittered := false
		for i := 1; i < len(sent); i++ {
			want := 30 * time.Second
			if i > 3 {
				want = min(30*time.Second<<(i-3), 10*time.Minute)
			}
			got := sent[i].at.Sub(sent[i-1].at)
			if got < want*9/10 || got > want*11/10 {
				t.Errorf("request %d comes after %v, want %v", i, got, want)
			}
			jittered = jittered || got != want
		}
		if len(sent) < 10 || len(sent) > 18 || !jittered {
			t.Errorf("%d requests in 90 minutes, jittered %v", len(sent), jittered)
		}
		if got := strings.Count(h.log.String(), "level=WARN"); got != 1 {
			t.Errorf("%d warnings, want one", got)
		}
		h.hub.SetFault(lab.FaultNone)
		time.Sleep(11 * time.Minute)
		h.wantServices(asr, nmt)
		before := len(h.net.requests())
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if got := len(h.net.requests()) - before; got < 9 || got > 11 {
			t.Errorf("%d requests in 5 minutes after it has recovered, want one each 30 s", got)
		}
	})
}

// TestRefreshOfOneServiceIsCoalesced: many requests for a service are one, which fetches this service only.
func TestRefreshOfOneServiceIsCoalesced(t *testing.T) {
	runCatalog(t, func(h *catalogHarness) {
		newer := nmt
		newer.Versions = []string{"3.2", "3.1"}
		h.hub.SetServices(asr, newer, tts)
		h.hub.SetFault(lab.FaultHang)
		h.catalog.Refresh("asr-en") // keeps Run busy
		synctest.Wait()
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { h.catalog.Refresh("nmt-en-es") })
		}
		wg.Wait()
		h.hub.SetFault(lab.FaultNone)
		h.wantServices(asr, newer)
		h.catalog.Refresh("tts-es") // one that was not listed
		h.wantServices(asr, newer, tts)
		h.catalog.Refresh("unknown/../name") // one that the ModelHub does not have
		h.wantServices(asr, newer, tts)
		lists, singles := h.hub.Requests("nmt-en-es")
		_, unknown := h.hub.Requests("unknown/../name")
		if lists != 1 || singles != 1 || unknown != 1 {
			t.Errorf("%d requests for the list, %d for the service and %d for the unknown one", lists, singles, unknown)
		}
		for range 10 {
			h.catalog.Refresh("unknown/../name")
			synctest.Wait()
		}
		if got := series(t, h.metrics.Registry, "lingua_catalog_refreshes_total"); got["not_listed"] != 11 || got["skipped"] != 0 {
			t.Errorf("requests for a service that does not exist open the breaker: %v", got)
		}
		if state := h.catalog.State(); state.FailCount != 0 || state.LastError != "" {
			t.Errorf("a service that does not exist counts as a failure: %+v", state)
		}
		for _, r := range h.net.requests() {
			if !strings.HasSuffix(r.url, "?key=hunter2") || r.Get("Authorization") == "" {
				t.Errorf("request %s with %v", r.url, r.Header)
			}
		}
	})
}

// TestRefreshOfManyServicesIsOneOfTheList: random names cause one request, not one each.
func TestRefreshOfManyServicesIsOneOfTheList(t *testing.T) {
	runCatalog(t, func(h *catalogHarness) {
		h.hub.SetFault(lab.FaultHang)
		h.catalog.Refresh("first") // keeps Run busy
		synctest.Wait()
		for i := range 1000 {
			h.catalog.Refresh(fmt.Sprint("odd-", i))
		}
		h.hub.SetFault(lab.FaultNone)
		synctest.Wait()
		lists, _ := h.hub.Requests("")
		if _, singles := h.hub.Requests("odd-1"); lists != 2 || singles != 0 {
			t.Errorf("%d requests for the list, %d for one of the services", lists, singles)
		}
	})
}

// TestBreakerSparesAModelHubThatFails: after three failures nothing is sent between the refreshes of the list.
func TestBreakerSparesAModelHubThatFails(t *testing.T) {
	runCatalog(t, func(h *catalogHarness) {
		h.hub.SetFault(lab.FaultFail)
		for range 3 {
			h.catalog.Refresh("asr-en")
			synctest.Wait()
		}
		sent := len(h.net.requests())
		for range 50 {
			h.catalog.Refresh("asr-en")
			synctest.Wait()
		}
		if got := len(h.net.requests()) - sent; got != 0 {
			t.Errorf("%d requests while the breaker is open", got)
		}
		if got := series(t, h.metrics.Registry, "lingua_catalog_refreshes_total")["skipped"]; got != 50 {
			t.Errorf("%v refreshes were skipped, want 50", got)
		}
		h.hub.SetFault(lab.FaultNone)
		time.Sleep(70 * time.Second)
		h.wantServices(asr, nmt)
		h.catalog.Refresh("asr-en")
		synctest.Wait()
		if _, singles := h.hub.Requests("asr-en"); singles != 4 {
			t.Errorf("%d requests for the service, want another one after the breaker has closed", singles)
		}
	})
}

// TestReadersCauseNoRequests: whatever is read, however often, nothing is sent.
func TestReadersCauseNoRequests(t *testing.T) {
	runCatalog(t, func(h *catalogHarness) {
		h.hub.SetFault(lab.FaultHang)
		before := time.Now()
		for range 1000 {
			h.catalog.Services()
			h.catalog.State()
			h.catalog.Lookup("asr-en")
			h.catalog.Lookup("unknown")
		}
		synctest.Wait()
		if got := len(h.net.requests()); got != 1 || !time.Now().Equal(before) {
			t.Errorf("%d requests, want only the first of the list", got)
		}
	})
}

func TestCatalogWithoutAModelHub(t *testing.T) {
	t.Parallel()
	c, err := health.NewCatalog(health.CatalogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.Refresh("asr")
	c.Run(t.Context()) // returns at once
	if c.State() != (health.CatalogState{}) || len(c.Services()) != 0 {
		t.Errorf("%+v, %v", c.State(), c.Services())
	}
}
