package socket_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestCloseTheHall: everybody is told, and nobody is let in any more.
func TestCloseTheHall(t *testing.T) {
	t.Parallel()
	p := open(t, socket.Options{}, nil)
	var peers []*peer
	for range 20 {
		peers = append(peers, dial(t, p.address))
		soon(t, p.opened)
	}
	closed := make(chan error, 1)
	go func() { closed <- p.Close(t.Context()) }()
	for _, c := range peers {
		c.expectError(wire.Internal)
		c.expectClose(wire.CloseDraining)
		c.Close()
	}
	if err := soon(t, closed); err != nil {
		t.Error(err)
	}
	if n := p.Len(); n != 0 {
		t.Errorf("there are %d connections", n)
	}
	_, resp := handshake(t, p.address, usual("Sec-WebSocket-Protocol: lingua.v1")...)
	if e := refusal(t, resp); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("answered %s, %+v", resp.Status, e)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestCloseTheHallOnTheDeaf: those who do not answer are cut when the context ends.
func TestCloseTheHallOnTheDeaf(t *testing.T) {
	t.Parallel()
	p := unwatched(t, socket.Options{}, nil)
	c := dial(t, p.address)
	conn := soon(t, p.opened)
	ctx, cancel := context.WithCancel(t.Context())
	closed := make(chan error, 1)
	go func() { closed <- p.Close(ctx) }()
	c.expectError(wire.Internal)
	c.expectClose(wire.CloseDraining)
	cancel()
	if err := soon(t, closed); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	p.gone(conn)
}

func TestCloseAnEmptyHall(t *testing.T) {
	t.Parallel()
	h := socket.NewHub(socket.Options{})
	for range 2 {
		if err := h.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
