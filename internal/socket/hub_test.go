package socket_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestHubClose: every connection is closed with an error, and new ones are refused.
func TestHubClose(t *testing.T) {
	t.Parallel()
	s := startServer(t, socket.Options{}, nil)
	var clients []*rawClient
	for range 20 {
		clients = append(clients, dial(t, s.address))
		receive(t, s.accepted)
	}
	closed := make(chan error, 1)
	go func() { closed <- s.Close(t.Context()) }()
	for _, c := range clients {
		c.expectError(wire.Internal)
		c.expectClose(wire.CloseDraining)
		c.Close()
	}
	if err := receive(t, closed); err != nil {
		t.Error(err)
	}
	if n := s.Len(); n != 0 {
		t.Errorf("%d connections are left", n)
	}
	_, resp := handshake(t, s.address, upgradeHeaders("Sec-WebSocket-Protocol: lingua.v1")...)
	if e := refusal(t, resp); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("answered %s, %+v", resp.Status, e)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestHubCloseAbortsUnresponsivePeers: connections whose peers do not answer the close are aborted when the context ends.
func TestHubCloseAbortsUnresponsivePeers(t *testing.T) {
	t.Parallel()
	s := startServerWithoutWatchdog(t, socket.Options{}, nil)
	c := dial(t, s.address)
	conn := receive(t, s.accepted)
	ctx, cancel := context.WithCancel(t.Context())
	closed := make(chan error, 1)
	go func() { closed <- s.Close(ctx) }()
	c.expectError(wire.Internal)
	c.expectClose(wire.CloseDraining)
	cancel()
	if err := receive(t, closed); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	s.awaitDone(conn)
}

func TestHubCloseWithoutConnections(t *testing.T) {
	t.Parallel()
	h := socket.NewHub(socket.Options{})
	for range 2 {
		if err := h.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
