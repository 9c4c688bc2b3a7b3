package server_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/wire"
)

// startPools starts a scheduler with the pools large, to which the tenant acme is bound, and small.
func startPools(t *testing.T, changes ...func(*config.Config)) *testScheduler {
	t.Helper()
	return startScheduler(t, append([]func(*config.Config){func(c *config.Config) {
		p := &c.Scheduler.Phase3
		p.Enabled, p.HashSeed = true, -7
		p.Pools = []config.PoolTable{{PoolID: "large", Name: "Large models", RequiredServices: []string{"asr-1@>=1"}}, {PoolID: "small", RequiredServices: []string{"asr-small"}}}
		p.TenantOverrides = []config.TenantOverride{{TenantID: "acme", PoolID: "large"}}
	}}, changes...)...)
}

// service is a ready service that a node declares.
func service(id, kind string) object {
	return object{"service_id": id, "version": "1", "type": kind, "status": "ready"}
}

// readPools is GET /api/v1/phase3/pools.
func (ts *testScheduler) readPools() wire.PoolOverview {
	ts.t.Helper()
	var o wire.PoolOverview
	ts.get("/api/v1/phase3/pools").decode(&o)
	return o
}

// TestPoolsAreShown: the pools with their nodes, slots, stages and tenants, and the nodes without one.
func TestPoolsAreShown(t *testing.T) {
	t.Parallel()
	ts := startPools(t)
	ts.registerNode("large-1", object{"installed_services": allServices()})
	ts.registerNode("large-2", object{"installed_services": allServices()}).heartbeat(object{"capability_state": object{"nmt-1": "error"}})
	ts.registerNode("small-1", object{"installed_services": []object{service("asr-small", "asr")}, "tts_langs": []string{}})
	ts.registerNode("none-1", nil)
	d, n := ts.dispatchAndReceive(dispatchBody(object{"tenant_id": "acme"}))
	if d.NodeID != "large-1" {
		t.Errorf("the job is on %s", d.NodeID)
	}
	want := wire.PoolOverview{
		Enabled: true, Generation: 1, MatchScope: "core_only", HashSeed: -7,
		Pools: []wire.Pool{
			{
				PoolID: "large", Name: "Large models", RequiredServices: []string{"asr-1@>=1"}, Nodes: wire.PoolNodes{Total: 2, Online: 2, Ready: 1},
				Slots:        wire.PoolSlots{Total: 2, Used: 1},
				CoreServices: wire.PoolCoreServices{ASR: wire.StageCount{Installed: 2, Ready: 2}, NMT: wire.StageCount{Installed: 2, Ready: 1}, TTS: wire.StageCount{Installed: 2, Ready: 2}},
				Examples:     []wire.PoolNode{{NodeID: "large-1", Ready: true}, {NodeID: "large-2", Reason: "NMT_SERVICE_NOT_READY"}},
				Tenants:      []string{"acme"}, TenantCount: 1,
			},
			{
				PoolID: "small", RequiredServices: []string{"asr-small"}, Nodes: wire.PoolNodes{Total: 1, Online: 1, Ready: 1}, Slots: wire.PoolSlots{Total: 2},
				CoreServices: wire.PoolCoreServices{ASR: wire.StageCount{Installed: 1, Ready: 1}, NMT: wire.StageCount{Installed: 1, Ready: 1}},
				Examples:     []wire.PoolNode{{NodeID: "small-1", Ready: true}}, Tenants: []string{},
			},
		},
		WithoutPool: wire.WithoutPool{
			Nodes:    wire.PoolNodes{Total: 1, Online: 1, Ready: 1},
			Examples: []wire.NodeWithoutPool{{NodeID: "none-1", Online: true, PoolGap: wire.PoolGap{ClosestPool: "large", MissingService: "asr-1@>=1"}}},
		},
	}
	ts.eventually("the pools are as wanted", func() bool { // a count that took long is used again for a while
		return cmp.Equal(want, ts.readPools(), cmpopts.IgnoreFields(wire.PoolOverview{}, "CountedMS"))
	})
	ts.get("/api/v1/phase3/pools?limit=1").expectError(wire.InvalidRequest)

	if v := ts.getNode("large-2"); v.PoolID != "large" || v.NoPool != nil {
		t.Errorf("the node large-2 has the pool %q, %+v", v.PoolID, v.NoPool)
	}
	var list wire.NodeList
	ts.get("/v1/nodes").decode(&list)
	i := slices.IndexFunc(list.Nodes, func(n wire.Node) bool { return n.NodeID == "none-1" })
	if v := list.Nodes[i]; v.PoolID != "" || v.NoPool == nil || *v.NoPool != (wire.PoolGap{ClosestPool: "large", MissingService: "asr-1@>=1"}) {
		t.Errorf("the node none-1 has the pool %q, %+v", v.PoolID, v.NoPool)
	}
	ts.expectJobPool(d.JobID, "large", true)
	n.done(d, nil).expectOK()
	ts.expectJobPool(d.JobID, "large", true)
}

// expectJobPool wants a pool wherever a job is shown.
func (ts *testScheduler) expectJobPool(id, pool string, bound bool) {
	ts.t.Helper()
	var jobs wire.JobList
	ts.get("/v1/jobs?search=" + id).decode(&jobs)
	var detail wire.JobDetail
	ts.get("/v1/jobs/" + id + "?decisions=true").decode(&detail)
	if len(jobs.Jobs) != 1 || len(detail.Decisions) != 1 {
		ts.t.Fatalf("%d jobs, %d decisions", len(jobs.Jobs), len(detail.Decisions))
	}
	for _, j := range []wire.Job{jobs.Jobs[0], detail.Job} {
		if j.PoolID != pool || j.PoolBound != bound {
			ts.t.Errorf("the job has the pool %q, bound %t, want %q, %t", j.PoolID, j.PoolBound, pool, bound)
		}
	}
	if got := detail.Decisions[0].PoolID; got != pool {
		ts.t.Errorf("the decision has the pool %q", got)
	}
}

// TestNoPools: without pools the answer is empty, and nothing else mentions pools.
func TestNoPools(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	ts.registerNode("n1", nil)
	o := ts.readPools()
	want := wire.PoolOverview{Pools: []wire.Pool{}, WithoutPool: wire.WithoutPool{Examples: []wire.NodeWithoutPool{}}, CountedMS: o.CountedMS}
	if diff := cmp.Diff(want, o); diff != "" || o.CountedMS == 0 {
		t.Errorf("counted at %d (-want +got)\n%s", o.CountedMS, diff)
	}
	ts.dispatch(dispatchBody(nil))
	for _, body := range [][]byte{ts.get("/v1/nodes").body, ts.get("/v1/jobs").body, ts.post("/v1/dispatch/explain", dispatchBody(nil)).body} {
		if strings.Contains(string(body), "pool") {
			t.Errorf("pools are mentioned: %s", body)
		}
	}
}

// TestPoolsOfReload: a reload puts other pools in force, and an instance whose file was replaced says that it differs.
func TestPoolsOfReload(t *testing.T) {
	t.Parallel()
	ts := startPools(t)
	changed := config.Default()
	changed.Scheduler.Phase3.Enabled, changed.Scheduler.Phase3.PoolCount = true, 3
	ts.scheduler.SetConfigSource(func() (config.Config, []string, error) { return changed, nil, nil })
	for _, query := range []string{"publish_pools=yes", "publish=true", "publish_pools=true&x=1"} {
		ts.request("POST", "/v1/config/reload?"+query, "", nil).expectError(wire.InvalidRequest)
	}
	if o := ts.readPools(); o.Generation != 1 {
		t.Errorf("a request that was refused has published the generation %d", o.Generation)
	}
	ts.request("POST", "/v1/config/reload?publish_pools=false", "", nil).decode(&wire.ReloadResponse{})
	o := ts.readPools()
	if o.Generation != 2 || len(o.Pools) != 3 || o.Pools[2].PoolID != "bucket-2" || len(o.Pools[2].RequiredServices) != 0 || o.FileDiffers {
		t.Errorf("generation %d, %+v, the file differs: %t", o.Generation, o.Pools, o.FileDiffers)
	}
	ts.registerNode("any", nil)
	if v := ts.getNode("any"); !strings.HasPrefix(v.PoolID, "bucket-") {
		t.Errorf("the node is in the pool %q", v.PoolID)
	}
}

// explainAs explains a dispatch with a key.
func (ts *testScheduler) explainAs(key string, body object) wire.ExplainResponse {
	ts.t.Helper()
	var x wire.ExplainResponse
	ts.requestAs(key, "POST", "/v1/dispatch/explain", body).decode(&x)
	return x
}

// TestPoolsOfKeys: nodes belong to the pool that their key names, and a tenant learns nothing of other tenants from explanations of pools.
func TestPoolsOfKeys(t *testing.T) {
	t.Parallel()
	keys := map[string]config.Key{
		"operator":  {Role: "operator"},
		"acme-gpu":  {Role: "node", Tenant: "acme", Nodes: "acme-*", Pool: "small"},
		"beta-gpu":  {Role: "node", Tenant: "beta", Nodes: "beta-*", Pool: "large"},
		"shared":    {Role: "node", Nodes: "gpu-*"},
		"view-beta": {Role: "viewer", Tenant: "beta"},
		"view-acme": {Role: "viewer", Tenant: "acme"},
	}
	ts := startPools(t, func(c *config.Config) {
		c.Callback.AllowedTargets = []string{"127.0.0.0/8"}
		for name, k := range keys {
			k.Name, k.SHA256 = name, []string{hashOf(keySecret(name))}
			c.Auth.Keys = append(c.Auth.Keys, k)
		}
	})
	register := func(id, key string, services ...object) {
		t.Helper()
		ts.requestAs(keySecret(key), "POST", "/v1/node/register", declaration(id, ts.newNode(id).callback()).with(object{"installed_services": services})).decode(&wire.RegisterResponse{})
	}
	register("acme-1", "acme-gpu", service("asr-small", "asr"), service("asr-1", "asr"))
	register("beta-1", "beta-gpu", service("asr-small", "asr"))
	register("gpu-1", "shared", service("asr-small", "asr"))

	var n wire.Node
	ts.requestAs(keySecret("operator"), "GET", "/v1/nodes/acme-1", nil).decode(&n)
	if n.PoolID != "small" {
		t.Errorf("acme-1 is in the pool %q, want that of its key", n.PoolID)
	}
	ts.requestAs(keySecret("view-beta"), "GET", "/v1/nodes/beta-1", nil).decode(&n)
	if want := (wire.PoolGap{ClosestPool: "large", MissingService: "asr-1@>=1", ByCredential: true}); n.NoPool == nil || *n.NoPool != want {
		t.Errorf("beta-1 lacks %+v, want %+v", n.NoPool, want)
	}

	x := ts.explainAs(keySecret("view-beta"), dispatchBody(nil))
	want := []wire.ExplainPool{{PoolID: "small", Eligible: true, Nodes: 1, Capable: 1, Free: 1}}
	if diff := cmp.Diff(want, x.Pools); diff != "" || x.BoundPool != "" {
		t.Errorf("bound to %q; beta sees (-want +got)\n%s", x.BoundPool, diff)
	}
	x = ts.explainAs(keySecret("view-acme"), dispatchBody(nil))
	want = []wire.ExplainPool{{PoolID: "large", Eligible: true, Reason: "no_nodes"}}
	if diff := cmp.Diff(want, x.Pools); diff != "" || x.BoundPool != "large" || x.Verdict != string(wire.NoCapableNode) {
		t.Errorf("%s, bound to %q; acme sees (-want +got)\n%s", x.Verdict, x.BoundPool, diff)
	}
	if body := string(encode(t, x)); strings.Contains(body, "beta") || len(x.Nodes) != 1 || x.Nodes[0].NodeID != "acme-1" || x.Nodes[0].PoolID != "small" {
		t.Errorf("acme sees more than its nodes: %s", body)
	}
	x = ts.explainAs(keySecret("operator"), dispatchBody(object{"tenant_id": "acme"}))
	want = []wire.ExplainPool{
		{PoolID: "large", Eligible: true, Reason: "no_nodes"},
		{PoolID: "small", Why: "tenant_bound", Nodes: 2, Capable: 2, Free: 2}, {PoolID: "", Why: "tenant_bound", Nodes: 1, Reason: "other_tenant"},
	}
	if diff := cmp.Diff(want, x.Pools); diff != "" {
		t.Errorf("an operator sees (-want +got)\n%s", diff)
	}
}
