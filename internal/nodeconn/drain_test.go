package nodeconn

import (
	"log/slog"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestDrainDuringRegistration: a node that is drained or resumed while it registers is told so after its acknowledgement, and another is told nothing.
func TestDrainDuringRegistration(t *testing.T) {
	t.Parallel()
	for _, drained := range []bool{true, false} {
		st, fl := newStore(), fleet.New(15*time.Second)
		registry := nodes.New(nodes.Config{Instance: "i-a"}, st, fl, nodes.Jobs{}, telemetry.New(), slog.New(slog.DiscardHandler))
		i := startInstance(t, st, "i-a", "i-a", false)
		s := &Server{ServerOptions: ServerOptions{Instance: "i-a", Conns: i.Conns, Nodes: registry}}
		registered, err := st.Register(t.Context(), store.RegisterParams{Node: core.Node{ID: "n", Declaration: core.Declaration{Health: core.HealthReady}}, Load: core.UnknownLoad, Drained: !drained})
		if err != nil {
			t.Fatal(err)
		}
		fl.Update(registered.NodeStatus)
		node := i.connectNode(t, "n", registered.Node.Epoch)
		n := i.get("n")
		s.correctDrain(n, !drained) // nothing has changed: the next message is the other
		if _, err := registry.Drain(t.Context(), "n", drained); err != nil {
			t.Fatal(err)
		}
		s.correctDrain(n, !drained)
		var told wire.Drain
		if node.read(&told); told.Drained != drained {
			t.Errorf("told drained %v, want %v", told.Drained, drained)
		}
	}
}
