package fleet

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingua-scheduler/lingua/internal/core"
)

func TestSummaryMatchesTheDeclaration(t *testing.T) {
	t.Parallel()
	type brief struct {
		Slots                             int
		Ready, Tenant, Reachable, Ejected bool
		Unready                           core.Reason
	}
	unready := map[string]core.Reason{
		"asr": core.ReasonASRNotReady, "semantic": core.ReasonSemanticNotReady, "nmt": core.ReasonNMTNotReady, "tts": core.ReasonTTSNotReady,
	}
	rapid.Check(t, func(t *rapid.T) {
		n := &core.Node{Drained: rapid.Bool().Draw(t, "drained"), Disconnected: rapid.Bool().Draw(t, "disconnected"), Declaration: core.Declaration{Health: rapid.SampledFrom([]core.Health{core.HealthReady, core.HealthDegraded, core.HealthDraining, core.HealthOffline}).Draw(t, "health"), MaxJobs: rapid.IntRange(-1, core.MaxConcurrentJobs).Draw(t, "max"), Tenant: core.TenantID(rapid.SampledFrom([]string{"", "acme"}).Draw(t, "tenant")), Callback: rapid.SampledFrom([]string{"", "http://node"}).Draw(t, "callback")}}
		want := brief{
			Slots: max(n.MaxJobs, 0), Ready: n.Health == core.HealthReady && !n.Drained && !n.Disconnected,
			Tenant: n.Tenant != "", Reachable: n.Callback != "",
		}
		if rapid.Bool().Draw(t, "limited") {
			limit := rapid.OneOf(rapid.IntRange(0, 4), rapid.IntRange(0, core.MaxConcurrentJobs)).Draw(t, "limit")
			limitedTo(limit)(n)
			want.Ejected = limit == 0 && n.MaxJobs > 0
			want.Slots = min(want.Slots, limit)
		}
		if kind := rapid.SampledFrom([]string{"", "tone", "asr", "semantic", "nmt", "tts"}).Draw(t, "service"); kind != "" {
			n.Services = []core.Service{{ID: "s", Type: kind, Status: core.ServiceStopped}}
			want.Unready = unready[kind]
		}
		view := new(Node)
		view.setDeclared(n)
		b := view.Summary()
		if b.MaybeUnready() != (want.Unready != core.ReasonNone) {
			t.Fatalf("doubtful %v with %+v", b.MaybeUnready(), n.Services)
		}
		if diff := cmp.Diff(want, brief{b.Slots(), b.Ready(), b.Tenant(), b.Reachable(), b.Ejected(), view.Unready(true, 0)}); diff != "" {
			t.Fatalf("brief of %+v (-want +got):\n%s", n, diff)
		}
	})
}

func roundTripLoad(l core.Load) core.Load {
	n := new(Node)
	n.load.Store(packLoad(l))
	return n.Load()
}

func TestLoadHasFourDigits(t *testing.T) {
	t.Parallel()
	part := rapid.OneOf(rapid.Just(-1.0), rapid.Just(0.0), rapid.Just(1.0), rapid.Float64Range(0, 1))
	rapid.Check(t, func(t *rapid.T) {
		want := core.Load{CPU: part.Draw(t, "cpu"), GPU: part.Draw(t, "gpu"), Memory: part.Draw(t, "memory")}
		got := roundTripLoad(want)
		for _, c := range []struct {
			name      string
			want, got float64
		}{
			{"cpu", want.CPU, got.CPU}, {"gpu", want.GPU, got.GPU}, {"memory", want.Memory, got.Memory},
		} {
			switch {
			case c.want < 0 && c.got >= 0:
				t.Fatalf("%s was unknown and is now %v", c.name, c.got)
			case c.want >= 0 && c.got < 0:
				t.Fatalf("%s was %v and is now unknown", c.name, c.want)
			case c.want >= 0 && math.Abs(c.want-c.got) >= 1e-4:
				t.Fatalf("%s was %v and is now %v", c.name, c.want, c.got)
			}
		}
	})
}

// TestLoadAtALimitIsNotOverIt checks that packing does not raise a load above the limit that it equals.
func TestLoadAtALimitIsNotOverIt(t *testing.T) {
	t.Parallel()
	for percent := range 101 {
		limit := float64(percent) / 100
		if got := roundTripLoad(core.Load{CPU: limit}).CPU; got > limit {
			t.Errorf("a load of %v is kept as %v", limit, got)
		}
		if got := roundTripLoad(core.Load{CPU: limit + 1e-4}).CPU; percent < 100 && got <= limit {
			t.Errorf("a load just over %v is kept as %v", limit, got)
		}
	}
}

func TestLoadEndsAreExact(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want float64 }{{0, 0}, {1, 1}, {1.5, 1}, {math.Inf(1), 1}} {
		want := core.Load{CPU: c.want, GPU: c.want, Memory: c.want}
		if diff := cmp.Diff(want, roundTripLoad(core.Load{CPU: c.in, GPU: c.in, Memory: c.in})); diff != "" {
			t.Errorf("a load of %v (-want +got):\n%s", c.in, diff)
		}
	}
}

// TestLoadKeepsOrder checks that packing does not change the order of loads.
func TestLoadKeepsOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Float64Range(0, 1).Draw(t, "a"), rapid.Float64Range(0, 1).Draw(t, "b")
		if got := roundTripLoad(core.Load{CPU: min(a, b), GPU: max(a, b)}); got.CPU > got.GPU {
			t.Fatalf("%v and %v are kept as %v and %v", min(a, b), max(a, b), got.CPU, got.GPU)
		}
	})
}

func TestNewNodeHasNoKnownLoad(t *testing.T) {
	t.Parallel()
	l := newNode(status(declared("a"))).Load()
	if l.CPU >= 0 || l.GPU >= 0 || l.Memory >= 0 {
		t.Errorf("load %+v, want all unknown", l)
	}
}
