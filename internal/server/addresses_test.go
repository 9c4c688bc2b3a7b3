package server_test

import (
	"bufio"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestConnectionsOfAnAddressAreBounded: one more than it may have is told so; one that was closed, or became a WebSocket,
// makes room.
func TestConnectionsOfAnAddressAreBounded(t *testing.T) {
	t.Parallel()
	const most = 4
	w := newWorld(t, func(c *config.Config) { c.Server.PerAddress = most })
	ask := func(c net.Conn) (int, wire.Error) {
		t.Helper()
		if _, err := c.Write([]byte("GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")); err != nil {
			return 0, wire.Error{} // it was refused and closed already
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return 0, wire.Error{}
		}
		defer resp.Body.Close()
		var e wire.Error
		if resp.StatusCode != http.StatusOK {
			if err := json.NewDecoder(resp.Body).Decode(&e); err != nil {
				t.Error(err)
			}
		}
		return resp.StatusCode, e
	}
	dial := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	fill := func() (held []net.Conn) {
		t.Helper()
		w.eventually("there is room for as many as there may be", func() bool {
			for len(held) < most {
				c := dial()
				if status, _ := ask(c); status != http.StatusOK {
					return false
				}
				held = append(held, c)
			}
			return true
		})
		return held
	}
	held := fill()
	resp, err := http.ReadResponse(bufio.NewReader(dial()), nil) // it is answered before it has asked
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var e wire.Error
	if err := json.NewDecoder(resp.Body).Decode(&e); err != nil || resp.StatusCode != http.StatusTooManyRequests ||
		e.Code != wire.RateLimited || e.RetryAfterMS == 0 || resp.Header.Get("Retry-After") == "" {
		t.Errorf("one too many: %s %+v, %v", resp.Status, e, err)
	}
	for _, c := range held {
		_ = c.Close()
	}
	for _, c := range fill() {
		_ = c.Close()
	}
	for range 2 * most {
		w.eventually("a WebSocket is opened", func() bool {
			s, err := w.tryConnect("/ws/session")
			if err != nil {
				return false
			}
			s.say(obj{"type": "session_start", "langs": []string{"en", "es"}})
			s.until("session_started")
			return true
		})
	}
	for _, c := range fill() { // beside twice as many WebSockets
		_ = c.Close()
	}
}
