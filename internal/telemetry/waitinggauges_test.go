package telemetry

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
)

// TestWaitingGauges: those that have most have a series of their own, and the sum of all stays the same. A tenant whose name is that of the
// rest is part of it.
func TestWaitingGauges(t *testing.T) {
	t.Parallel()
	counts := WaitingCounts{Pools: map[string]int{"": 3, "gold": 1}, Tenants: map[string]int{"other": 5}, Shares: map[string]TenantShare{"": {Granted: 8, Entitled: 16}}}
	for i := range 100 {
		counts.Tenants[fmt.Sprint("t", i)] = 10 + i
		counts.Shares[fmt.Sprint("t", i)] = TenantShare{Granted: 20, Entitled: float64(40 + i)}
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(NewWaitingGauges(func() WaitingCounts { return counts }))
	_, got := gather(t, reg)
	want := map[string]float64{
		"lingua_waiting_requests_by_pool{pool=none}": 3, "lingua_waiting_requests_by_pool{pool=gold}": 1,
		"lingua_waiting_requests_by_tenant{tenant=other}": 5, "lingua_wait_share_ratio{tenant=other}": 0,
	}
	rest := TenantShare{Granted: 8, Entitled: 16}
	for i := range 100 {
		if i >= 80 {
			want[fmt.Sprintf("lingua_waiting_requests_by_tenant{tenant=t%d}", i)] = float64(10 + i)
			want[fmt.Sprintf("lingua_wait_share_ratio{tenant=t%d}", i)] = 20 / float64(40+i)
			continue
		}
		want["lingua_waiting_requests_by_tenant{tenant=other}"] += float64(10 + i)
		rest.Granted += 20
		rest.Entitled += float64(40 + i)
	}
	want["lingua_wait_share_ratio{tenant=other}"] = rest.Granted / rest.Entitled
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	counts = WaitingCounts{}
	if _, got := gather(t, reg); len(got) != 0 {
		t.Errorf("nobody waits: %s", strings.TrimSpace(fmt.Sprint(got)))
	}
}
