package nodeconn

import (
	"log/slog"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestDeliverPastAHalfOpenConnection: the node has connected to i-b, and its connection to this instance is half open. Jobs are
// delivered through i-b before the pings notice.
func TestDeliverPastAHalfOpenConnection(t *testing.T) {
	t.Parallel()
	st := memstore.New(store.Timing{Presence: 15 * time.Second, Job: 30 * time.Second})
	if err := st.Announce(t.Context(), store.AnnounceParams{ID: "i-b", Body: []byte("{}"), TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	b := bus.New(bus.Config{Instance: "i-a", TTL: 3 * time.Second, About: func() bus.About { return bus.About{} }}, st, telemetry.New(), slog.New(slog.DiscardHandler))
	c := NewConns(Options{Bus: b, Owner: func(core.NodeID) core.InstanceID { return "i-b" }, ACKTimeout: 2 * time.Second})
	c.add(&conn{id: "n", epoch: 1}) // the connection of its earlier epoch
	node := &core.Node{ID: "n", Epoch: 2, Owner: "i-b"}
	if err := c.Deliver(t.Context(), node, &wire.Assignment{JobID: "j", AttemptID: 1, NodeID: "n", Epoch: 2}); err != nil {
		t.Errorf("not delivered through i-b, the owner of the node: %v", err)
	}
}
