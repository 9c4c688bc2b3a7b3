package socket_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestRefusedConnections do not count for their address, are told why, and are gone soon even if they never close.
func TestRefusedConnections(t *testing.T) {
	t.Parallel()
	ended := make(chan socket.CloseError, 5)
	hall := socket.NewHub(socket.Options{PerAddress: 1, Stall: time.Hour, Ended: func(c socket.CloseError) { ended <- c }})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hall.Refuse(w, r, wire.CloseUnauthorized, wire.Errorf(wire.Unauthorized, "no"))
	}))
	t.Cleanup(srv.Close)
	address := strings.TrimPrefix(srv.URL, "http://")
	for range 5 {
		p := dial(t, address) // which fails if those before it have taken the place
		p.expectError(wire.Unauthorized)
		p.expectClose(wire.CloseUnauthorized)
	}
	for range 5 { // without a word from the other side, whose connections are open
		if c := soon(t, ended); c.Code != wire.CloseUnauthorized || c.ByPeer {
			t.Errorf("it ended with %+v", c)
		}
	}
	if n := hall.Len(); n != 0 {
		t.Errorf("%d connections are left", n)
	}
}
