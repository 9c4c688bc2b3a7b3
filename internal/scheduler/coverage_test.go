package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/lab"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/test/fleet"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestCoverageOfABoundTenant: the only ready node of the pool to which a tenant is bound fails each of its jobs, in a fleet with others for
// the same direction. It is not ejected, and an event says so; what would be missing without it is said before it is drained, and what is
// missing after that by the statistics, the list of directions and the refusal of the tenant's requests.
func TestCoverageOfABoundTenant(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	cfg.Server.Port, cfg.Server.ShutdownSeconds = 0, 0
	cfg.Scheduler.Stats.IntervalSeconds = 1
	p := &cfg.Scheduler.Phase3
	p.Enabled = true
	p.Pools = []config.PoolTable{{PoolID: "gold", RequiredServices: []string{"x"}}, {PoolID: "rest", RequiredServices: []string{"y"}}}
	p.TenantOverrides = []config.TenantOverride{{TenantID: "acme", PoolID: "gold"}}
	s, url := runTest(t, func() *scheduler.Scheduler { return newScheduler(t, cfg) })
	peer := lab.NewAPI(url)
	t.Cleanup(peer.Close)
	start := func(id, service string, err error) {
		t.Helper()
		slots := 4
		startCallbackNode(t, fleet.CallbackOptions{
			ID: id, API: func() *lab.API { return peer }, Work: func(context.Context, *wire.Assignment) (string, error) { return "…", err },
			Declaration: wire.Declaration{
				SemanticLangs: []string{"en", "zh"}, MaxConcurrentJobs: &slots, InstalledServices: []wire.Service{{ServiceID: service, Status: "ready"}},
			},
		})
	}
	start("gold-1", "x", fleet.JobError("MODEL_LOAD_FAILED"))
	start("gold-2", "x", nil)
	for i := range 4 {
		start(fmt.Sprint("rest-", i), "y", nil)
	}
	drain := func(id string) {
		t.Helper()
		if err := peer.Post(t.Context(), "/v1/nodes/"+id+"/drain", nil, new(wire.NodeDetail)); err != nil {
			t.Fatal(err)
		}
	}
	drain("gold-2")

	isKept := func(e wire.Event) bool {
		return e.Kind == "coverage" && e.NodeID == "gold-1" && strings.HasSuffix(e.Detail, "not ejected: it is the last ready node of en→zh in pool gold")
	}
	sending, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for i := range 4 {
		clients.Go(func() {
			for serial := 0; run.Sleep(sending, 5*time.Millisecond); serial++ {
				for _, tenant := range []string{"acme", ""} {
					in := wire.DispatchRequest{RequestID: fmt.Sprintf("%s-%d-%d", tenant, i, serial), TenantID: tenant, SessionID: "s", SrcLang: "en", TgtLang: "zh"}
					_ = peer.Post(sending, "/v1/dispatch/f2f", in, new(wire.DispatchResponse)) // some are refused: the pool is small
				}
			}
		})
	}
	waitUntil(t, "an event that the node is kept", waitLimit, func() bool {
		var list wire.EventList
		return peer.Get(t.Context(), "/v1/events", &list) == nil && slices.ContainsFunc(list.Events, isKept)
	})
	stop()
	clients.Wait()
	if s.Fleet.Node("gold-1").Summary().Ejected() {
		t.Error("the last node of the pool is ejected")
	}

	ofGold := func(all []wire.DirectionName) bool {
		return len(all) == 2 && all[0].PoolID == "gold" && all[1].PoolID == "gold"
	}
	var tried wire.NodeDetail
	if err := peer.Post(t.Context(), "/v1/nodes/gold-1/drain?dry_run=true", nil, &tried); err != nil || tried.DrainEffect == nil || !ofGold(tried.DrainEffect.None) {
		t.Errorf("what a drain would leave: %+v, %v", tried.DrainEffect, err)
	}
	drain("gold-1")
	waitUntil(t, "the statistics to name the pool", waitLimit, func() bool {
		var stats wire.Stats
		return peer.Get(t.Context(), "/api/v1/stats", &stats) == nil && slices.ContainsFunc(stats.Coverage.None, func(d wire.DirectionCoverage) bool {
			return d.SrcLang == "en" && d.PoolID == "gold"
		})
	})
	var list wire.DirectionList
	if err := peer.Get(t.Context(), "/v1/directions", &list); err != nil || len(list.Directions) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	for _, d := range list.Directions {
		if d.Ready != 4 || !slices.Equal(d.Uncovered, []wire.CoverGroup{{PoolID: "gold"}}) {
			t.Errorf("%+v, want four ready nodes and none in the pool", d)
		}
	}
	var refused *wire.Error
	err := peer.Post(t.Context(), "/v1/dispatch/f2f", wire.DispatchRequest{TenantID: "acme", SessionID: "s", SrcLang: "en", TgtLang: "zh"}, new(wire.DispatchResponse))
	if !errors.As(err, &refused) || refused.Reasons["DRAINED"] != 2 || refused.Reasons["FULL"] != 0 || !strings.HasPrefix(refused.Detail, "No node of the pool gold") {
		t.Errorf("the refusal of the bound tenant: %v", err)
	}
}
