package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// tableIDs returns the names of the rows of a node table.
func tableIDs(out *wire.NodeTable) string {
	var ids []string
	for i := range out.Rows {
		ids = append(ids, out.Rows[i].NodeID)
	}
	return strings.Join(ids, " ")
}

func TestNodeTable(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	ts.registerNode("gpu-1", object{"max_concurrent_jobs": 4, "region": "eu", "current_load": object{"gpu": 0.5}})
	ts.registerNode("gpu-2", object{"region": "us", "semantic_langs": []string{"fr", "de"}, "nmt_pairs": [][]string{{"fr", "de"}}, "installed_services": []object{{"service_id": "asr", "version": "2", "status": "ready"}}})
	ts.registerNode("cpu-1", object{"region": "eu"})
	ts.request("POST", "/v1/nodes/cpu-1/drain", "", nil).decode(new(wire.Node))
	for query, want := range map[string]string{
		"":                               "cpu-1 gpu-1 gpu-2",
		"search=GPU":                     "gpu-1 gpu-2",
		"state=draining":                 "cpu-1",
		"language=fr":                    "gpu-2",
		"src_lang=fr&tgt_lang=de":        "gpu-2",
		"region=eu&sort=name&order=desc": "gpu-1 cpu-1",
		"service=asr@2":                  "gpu-2",
		"service=asr@3":                  "",
		"tenant_id=acme":                 "",
		"pool_id=p":                      "",
		"sort=load&order=desc&limit=1":   "gpu-1",
		"offset=1&limit=1":               "gpu-1",
	} {
		var out wire.NodeTable
		ts.get("/v1/nodes/table?" + query).decode(&out)
		if got := tableIDs(&out); got != want || out.Total != 3 {
			t.Errorf("%s: %q of %d, want %q of 3", query, got, out.Total, want)
		}
	}
	var out wire.NodeTable
	ts.get("/v1/nodes/table?region=eu&state=ready").decode(&out)
	if diff := cmp.Diff(map[string]int{"ready": 1, "draining": 1}, out.States); diff != "" || out.Matches != 1 || out.GeneratedMS == 0 {
		t.Errorf("%d matches at %d; states (-want +got):\n%s", out.Matches, out.GeneratedMS, diff)
	}
}

func TestNodeTableRefusesBadQueries(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	for query, field := range map[string]string{
		"colour=red": "query", "limit=0": "limit", "limit=1001": "limit", "limit=x": "limit", "offset=-1": "offset", "offset=99999999999999999999": "offset",
		"state=silent": "state", "sort=colour": "sort", "order=up": "order", "language=??": "language", "src_lang=de": "tgt_lang", "tgt_lang=de": "src_lang",
		"src_lang=x&tgt_lang=de": "src_lang", "tenant_id=a%20b": "tenant_id", "pool_id=a/b": "pool_id", "search=" + strings.Repeat("x", 129): "search",
		"service=" + strings.Repeat("x", 513): "service", "region=" + strings.Repeat("x", 513): "region",
	} {
		if e := ts.get("/v1/nodes/table?" + query).expectError(wire.InvalidRequest); e.Field != field {
			t.Errorf("%s: the error is about %q, want %q", query, e.Field, field)
		}
	}
}

// TestNodeTableOfATenant checks that a key of a tenant sees the nodes that GET /v1/nodes shows it.
func TestNodeTableOfATenant(t *testing.T) {
	t.Parallel()
	ts := startMatrix(t)
	newMatrixObjects(ts)
	for key, want := range map[string]string{"operator": "acme-1 beta-1 gpu-1", "viewer-acme": "acme-1", "viewer-beta": "beta-1"} {
		var table wire.NodeTable
		ts.requestAs(keySecret(key), "GET", "/v1/nodes/table", nil).decode(&table)
		var list wire.NodeList
		ts.requestAs(keySecret(key), "GET", "/v1/nodes", nil).decode(&list)
		if got := tableIDs(&table); got != want || table.Total != len(list.Nodes) {
			t.Errorf("%s sees %q of %d, want %q of %d", key, got, table.Total, want, len(list.Nodes))
		}
	}
	ts.requestAs(keySecret("viewer-beta"), "GET", "/v1/nodes/table?tenant_id=acme", nil).expectError(wire.Forbidden)
}

// TestNodeNamedTable checks that a node with the name of a path can be removed, and that other methods are answered as for every node.
func TestNodeNamedTable(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	ts.registerNode("table", nil)
	a := ts.request("PUT", "/v1/nodes/table", "", nil)
	a.expectError(wire.MethodNotAllowed)
	if diff := cmp.Diff([]string{"GET", "DELETE"}, a.header.Values("Allow")); diff != "" {
		t.Errorf("Allow of PUT (-want +got):\n%s", diff)
	}
	if a := ts.request("DELETE", "/v1/nodes/table", "", nil); a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// benchNode is a node of a large fleet.
func benchNode(i int) store.NodeStatus {
	return store.NodeStatus{
		Load: core.Load{CPU: float64(i%100) / 100, GPU: -1, Memory: -1}, Occupancy: store.Occupancy{Max: 4},
		Node: &core.Node{
			ID: core.NodeID(fmt.Sprintf("gpu-%05d", i)), Epoch: 1, Revision: 1, Version: 1, Declaration: core.Declaration{Health: core.HealthReady, MaxJobs: 4, Owner: "i-1", Region: "eu",
				Capability: core.Capability{Semantic: core.NewLangSet("de", "en", "fr", core.Lang(fmt.Sprintf("x%c", 'a'+i%26))), AnyPair: true}},
		},
	}
}

// BenchmarkNodeTable reads pages of 200 of 10,000 nodes over HTTP.
func BenchmarkNodeTable(b *testing.B) {
	ts := startScheduler(b)
	for i := range 10_000 {
		ts.scheduler.Fleet.Update(benchNode(i))
	}
	for name, query := range map[string]string{"all": "", "search": "search=099", "load": "sort=load&order=desc", "direction": "src_lang=de&tgt_lang=en"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				w := httptest.NewRecorder()
				ts.scheduler.Server.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/v1/nodes/table?"+query, nil))
				if w.Code != http.StatusOK {
					b.Fatal(w.Code, w.Body)
				}
			}
		})
	}
}
