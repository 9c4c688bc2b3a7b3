package socket_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/wire"
)

// said is a frame for tests.
type said struct {
	N    int    `json:"n"`
	Text string `json:"text,omitempty"`
}

// Type implements wire.Frame.
func (said) Type() wire.FrameType { return "said" }

// place is a hall with a real server before it.
type place struct {
	*socket.Hub
	t       *testing.T
	address string
	opened  chan *socket.Conn // those that were accepted
	ended   chan error        // what the last Read of each returned
}

// open serves a hall with its watchdog. Each connection is read by serve, which is given what came; nil says everything
// back.
func open(t *testing.T, o socket.Options, serve func(*socket.Conn, socket.Message)) *place {
	t.Helper()
	p := unwatched(t, o, serve)
	ctx, stop := context.WithCancel(t.Context())
	var watchdog sync.WaitGroup
	watchdog.Go(func() { p.Run(ctx) })
	t.Cleanup(func() {
		stop()
		watchdog.Wait()
	})
	return p
}

// unwatched serves a hall without a watchdog: the test looks by itself.
func unwatched(t *testing.T, o socket.Options, serve func(*socket.Conn, socket.Message)) *place {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if serve == nil {
		serve = echo
	}
	p := &place{Hub: socket.NewHub(o), t: t, opened: make(chan *socket.Conn, 1000), ended: make(chan error, 1000)}
	var readers sync.WaitGroup
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := p.Accept(w, r)
		if err != nil {
			return
		}
		p.opened <- c
		readers.Go(func() {
			for {
				m, err := c.Read()
				if err != nil {
					p.ended <- err
					return
				}
				serve(c, m)
			}
		})
	}))
	p.address = strings.TrimPrefix(srv.URL, "http://")
	t.Cleanup(func() {
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		_ = p.Close(gone)
		readers.Wait()
		if n := p.Len(); n != 0 {
			t.Errorf("%d connections are left", n)
		}
		srv.Close()
	})
	return p
}

// echo says back what came.
func echo(c *socket.Conn, m socket.Message) {
	if m.Binary {
		c.SendBinary(m.Data)
		return
	}
	c.Send(raw(m.Data))
}

// raw is a frame that shows what came as text.
type raw string

// Type implements wire.Frame.
func (raw) Type() wire.FrameType { return "raw" }

// MarshalJSON quotes it in an object, as every frame is one.
func (r raw) MarshalJSON() ([]byte, error) { return []byte(`{"x":` + quote(string(r)) + `}`), nil }

// soon receives, or fails the test when nothing comes for long.
func soon[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatal("nothing came for long")
		panic("unreachable")
	}
}

// closed is how the next connection that ends did so.
func (p *place) closed() socket.CloseError {
	p.t.Helper()
	var c *socket.CloseError
	if err := soon(p.t, p.ended); !errors.As(err, &c) {
		p.t.Fatalf("Read returned %v, which is not a *Closed", err)
	}
	return *c
}

// gone waits until everything of a connection has ended.
func (p *place) gone(c *socket.Conn) {
	p.t.Helper()
	soon(p.t, c.Done())
}

// quote writes a JSON string.
func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// shown is what echo says of a text.
func shown(s string) string { return `{"type":"raw","x":` + quote(s) + `}` }
