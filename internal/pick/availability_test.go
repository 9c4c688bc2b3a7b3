package pick_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/pick"
)

// TestAvailability: what keeps a node from every job counts, and what matters to some jobs only does not.
func TestAvailability(t *testing.T) {
	t.Parallel()
	service := func(kind string) func(*core.Node) {
		return func(n *core.Node) {
			n.Services = []core.Service{{ID: "s", Type: kind, Status: core.ServiceError}}
		}
	}
	for name, c := range map[string]struct {
		change func(*core.Node)
		want   core.Reason
	}{
		"ready":                 {func(*core.Node) {}, core.ReasonNone},
		"of a tenant":           {func(n *core.Node) { n.Tenant = "acme" }, core.ReasonNone},
		"drained":               {func(n *core.Node) { n.Drained = true }, core.ReasonDrained},
		"degraded":              {func(n *core.Node) { n.Health = core.HealthDegraded }, core.ReasonNotReady},
		"unreachable":           {func(n *core.Node) { n.Callback = "" }, core.ReasonUnreachable},
		"ejected":               {limitedTo(0), core.ReasonEjected},
		"without slots":         {func(n *core.Node) { n.MaxJobs = 0 }, core.ReasonNoCapacity},
		"recognition not ready": {service("asr"), core.ReasonASRNotReady},
		"speech not ready":      {service("tts"), core.ReasonNone},
	} {
		f := emptyPool()
		f.Update(status(declared("n", c.change)))
		if got := pick.New(f.Fleet, defaultPolicy(), nil).Availability(f.Node("n"), f.Now()); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		f := poolOf(1)
		p := pick.New(f.Fleet, heartbeatPolicy(), nil)
		f.node(0).RecordMissedACK(f.Now())
		if got := p.Availability(f.node(0), f.Now()); got != core.ReasonNone {
			t.Errorf("a node that is set aside: %q", got)
		}
		time.Sleep(time.Minute)
		if got := p.Availability(f.node(0), f.Now()); got != core.ReasonStale {
			t.Errorf("a node without a heartbeat: %q", got)
		}
	})
}
