package server

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestLateDeliveryIsRefused: a delivery whose time is over does not reach the node's connection, and counts as not sent.
func TestLateDeliveryIsRefused(t *testing.T) {
	t.Parallel()
	l := NewLinks(nil, []byte("secret"))
	l.enter(&nodeLink{id: "n", epoch: 1}) // without a connection: sending over it would panic
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Millisecond))
	defer cancel()
	err := l.Deliver(ctx, &core.Node{ID: "n", Epoch: 1}, &wire.Assignment{JobID: "j", AttemptID: 1, NodeID: "n", Epoch: 1})
	if !errors.Is(err, dispatch.ErrRefused) {
		t.Errorf("%v, want refused", err)
	}
}
