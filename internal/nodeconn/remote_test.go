package nodeconn

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
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
		t.Errorf("the node is connected to i-b, and the store says so: %v", err)
	}
}

// TestLateDeliveryIsRefused: a delivery whose time is over does not reach the node's connection, and counts as not sent.
func TestLateDeliveryIsRefused(t *testing.T) {
	t.Parallel()
	c := NewConns(Options{})
	c.add(&conn{id: "n", epoch: 1}) // without a WebSocket: sending over it would panic
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Millisecond))
	defer cancel()
	err := c.Deliver(ctx, &core.Node{ID: "n", Epoch: 1}, &wire.Assignment{JobID: "j", AttemptID: 1, NodeID: "n", Epoch: 1})
	if !errors.Is(err, dispatch.ErrRefused) {
		t.Errorf("%v, want refused", err)
	}
}

// TestLateAssignmentIsReturned: the assignment of another instance is not delivered after its message has expired; the sender
// is notified.
func TestLateAssignmentIsReturned(t *testing.T) {
	t.Parallel()
	st := memstore.New(store.Timing{Presence: 15 * time.Second, Job: 30 * time.Second})
	if err := st.Announce(t.Context(), store.AnnounceParams{ID: "i-b", Body: []byte("{}"), TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	b := bus.New(bus.Config{Instance: "i-a", TTL: 3 * time.Second, About: func() bus.About { return bus.About{} }}, st, telemetry.New(), slog.New(slog.DiscardHandler))
	c := NewConns(Options{Bus: b})
	c.add(&conn{id: "n", epoch: 1}) // without a WebSocket: sending over it would panic
	late := expiredContext{t.Context(), time.Now().Add(-time.Millisecond)}
	in := assignMessage{Node: "n", Epoch: 1, Assign: wire.JobAssign{JobID: "j", AttemptID: 1}}
	if err := c.handleAssign(late, &bus.Message{From: "i-b"}, &in); err != nil {
		t.Fatal(err)
	}
	got, err := st.Fetch(t.Context(), store.FetchParams{Inbox: "i-b", Wait: time.Millisecond, Limit: 2})
	if err != nil || len(got) != 1 || !strings.Contains(string(got[0].Body), string(kindUndelivered)) {
		t.Errorf("the sender got %v, %v; want one %s", got, err, kindUndelivered)
	}
}

// expiredContext is past its deadline while its timer has not fired, as in a process that was stopped.
type expiredContext struct {
	context.Context
	deadline time.Time
}

func (c expiredContext) Deadline() (time.Time, bool) { return c.deadline, true }
