package storetest

import (
	"context"
	"testing"
)

// inspectBehaviours is the specification of Inspector.
var inspectBehaviours = []behaviour{
	{"every server of the store is described", testInspect},
	{"servers that do not answer in time are not healthy", testInspectTooLate},
}

func testInspect(t *testing.T, h *Harness) {
	i := h.Store.Inspect(t.Context())
	if i.Kind == "memory" {
		if i.Mode != "" || len(i.Servers) != 0 {
			t.Errorf("a store without servers: %+v", i)
		}
		return
	}
	primaries := 0
	for _, s := range i.Servers {
		if s.Primary {
			primaries++
		}
		if s.Address == "" || !s.Healthy || s.Primary &&
			(s.Version == "" || s.Policy != "noeviction" || s.Used <= 0 || s.Clients <= 0 || s.Ping <= 0 || s.Lag != -1) {
			t.Errorf("a server: %+v", s)
		}
		if (s.Slots != "") != (i.Mode == "cluster" && s.Primary) {
			t.Errorf("a server of a %s has the slots %q: %+v", i.Mode, s.Slots, s)
		}
	}
	if i.Kind != "redis" || primaries == 0 || primaries > 1 && i.Mode != "cluster" {
		t.Errorf("%d primaries: %+v", primaries, i)
	}
}

func testInspectTooLate(t *testing.T, h *Harness) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, s := range h.Store.Inspect(ended).Servers {
		if s.Healthy || s.Address == "" {
			t.Errorf("a server that was not asked: %+v", s)
		}
	}
}
