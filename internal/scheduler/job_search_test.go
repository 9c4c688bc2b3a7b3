package scheduler_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

// getList requests a path of an instance with a key, and decodes the answer.
func getList[T any](t *testing.T, at *instance, path, key string) (out T) {
	t.Helper()
	status, body := getAs(t, at.peer.URL+path, key, nil)
	if err := json.Unmarshal(body, &out); err != nil || status != http.StatusOK {
		t.Fatalf("%s: %d %s", path, status, body)
	}
	return out
}

// TestSearchAsksAllInstances checks that a search on any instance finds the jobs of all, that decisions are found wherever they were made,
// and that an instance of another tenant's caller shows nothing of it.
func TestSearchAsksAllInstances(t *testing.T) {
	t.Parallel()
	instances := startCluster(t, redistest.Start(t).URL(), keyedConfig(t, newPeerSecret), nil)
	finishJobs(t, instances[0], "n1")
	finishJobs(t, instances[1], "n2")
	for i, at := range instances {
		for node := range 2 {
			query := fmt.Sprintf("/v1/jobs?state=DONE&src_lang=en&node_id=n%d&since=%d", node+1, time.Now().Add(-time.Hour).UnixMilli())
			var list wire.JobList
			waitUntil(t, "the jobs of both tenants", waitLimit, func() bool {
				list = getList[wire.JobList](t, at, query, keyOfOperator)
				return len(list.Jobs) == 2 && !list.Partial
			})
			for _, job := range list.Jobs {
				var detail wire.JobDetail
				waitUntil(t, "the answers of all instances", waitLimit, func() bool {
					detail = getList[wire.JobDetail](t, at, "/v1/jobs/"+job.JobID+"?decisions=true", keyOfOperator)
					return detail.Incomplete == nil
				})
				want := []string{string(instances[node].Bus.Instance())}
				var got []string
				for _, d := range detail.Decisions {
					got = append(got, d.Instance)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("instance %d: decisions were made by (-want +got):\n%s", i, diff)
				}
				status, body := getAs(t, at.peer.URL+"/v1/jobs/"+job.JobID+"/decisions", keyOfMinter, nil)
				if want := map[string]int{"acme": http.StatusOK, "beta": http.StatusNotFound}[job.TenantID]; status != want {
					t.Errorf("a minter of acme gets %d for a job of %s: %s", status, job.TenantID, body)
				}
			}
		}
	}
}

// TestSearchNamesInstancesThatDoNotAnswer announces instances that hang, break off and talk nonsense: a search is answered within its bound,
// with what the others have, and names them.
func TestSearchNamesInstancesThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	instances := startInstances(t, 1, redistest.Start(t).URL(), keyedConfig(t, newPeerSecret), nil)
	jobs := finishJobs(t, instances[0], "n1")
	behaviours := map[string]http.HandlerFunc{
		"hangs-12345678": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"breaks-12345678": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte(`{"jobs":[{"job_id":"x"`)) // and dies
		},
		"nonsense-12345678": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(strings.Repeat("[", 1000))) },
		"refuses-12345678":  func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "{}", http.StatusUnauthorized) },
	}
	want := []string{"breaks-12345678", "gone-12345678", "hangs-12345678", "nonsense-12345678", "refuses-12345678"}
	addresses := map[string]string{"gone-12345678": "http://127.0.0.1:1"}
	for name, behaviour := range behaviours {
		srv := httptest.NewServer(behaviour)
		t.Cleanup(srv.Close)
		addresses[name] = srv.URL
	}
	for name, address := range addresses {
		about, err := json.Marshal(map[string]any{"name": name, "url": address})
		if err != nil {
			t.Fatal(err)
		}
		if err := instances[0].Store.Announce(t.Context(), store.AnnounceParams{ID: core.InstanceID(name), Body: about, TTL: waitLimit}); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	var list wire.JobList
	var detail wire.JobDetail
	var searches sync.WaitGroup
	searches.Go(func() { list = getList[wire.JobList](t, instances[0], "/v1/jobs?state=DONE", keyOfOperator) })
	searches.Go(func() {
		detail = getList[wire.JobDetail](t, instances[0], "/v1/jobs/"+jobs[0]+"?decisions=true", keyOfOperator)
	})
	searches.Wait()
	if diff := cmp.Diff(want, list.Incomplete); diff != "" || !list.Partial || len(list.Jobs) != 2 {
		t.Errorf("%d jobs, partial %v, without (-want +got):\n%s", len(list.Jobs), list.Partial, diff)
	}
	if diff := cmp.Diff(want, detail.Incomplete); diff != "" || len(detail.Decisions) != 1 {
		t.Errorf("%d decisions, without (-want +got):\n%s", len(detail.Decisions), diff)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the searches took %s", took)
	}
}

// TestNodeSeriesSumsUpInstances checks that the series of a node on any instance has the jobs that all instances counted.
func TestNodeSeriesSumsUpInstances(t *testing.T) {
	t.Parallel()
	cfg := keyedConfig(t, newPeerSecret)
	cfg.Scheduler.Stats.IntervalSeconds = 1
	instances := startCluster(t, redistest.Start(t).URL(), cfg, nil)
	finishJobs(t, instances[0], "n1")
	finishJobs(t, instances[1], "n1") // registers it again, there
	for _, at := range instances {
		waitUntil(t, "the jobs of both instances", waitLimit, func() bool {
			series, done := getList[wire.NodeSeries](t, at, "/v1/nodes/n1/series", keyOfOperator), 0
			for _, p := range series.Points {
				done += p.Done
			}
			return done == 4 && series.Incomplete == nil
		})
	}
}
