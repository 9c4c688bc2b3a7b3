package node_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

// either waits for the node at two schedulers, and says at which it is and which is the other.
func either(t *testing.T, a, b *scheduler) (p *peer, at, other *scheduler) {
	t.Helper()
	select {
	case p = <-a.peers:
		at, other = a, b
	case p = <-b.peers:
		at, other = b, a
	case <-time.After(patience):
		t.Fatal("the node did not connect")
	}
	expect[wire.NodeRegister](p)
	p.send(anyAck)
	p.settled()
	return p, at, other
}

// among is the configuration of a node that knows several addresses.
func among(urls ...string) node.Config {
	cfg := basic(urls[0])
	cfg.URLs = urls[1:]
	return cfg
}

// TestAddresses: one that lives is found among those that do not, wherever the node begins.
func TestAddresses(t *testing.T) {
	t.Parallel()
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead.Close()
	vanished, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { vanished.Close() })
	stopping := newScheduler(t)
	stopping.refuse.Store(http.StatusServiceUnavailable)
	elsewhere := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(elsewhere.Close)
	for range 8 {
		s := newScheduler(t)
		start(t, among("http://"+dead.Addr().String(), "http://"+vanished.Addr().String(), elsewhere.URL, s.URL, stopping.URL), node.Quick{Knock: 100 * time.Millisecond})
		p := s.connection()
		for _, ok := p.next(); !ok; _, ok = p.next() { // on a slow machine even one that lives may not open in time
			p = s.connection()
		}
		p.send(anyAck)
		p.assign("j-1")
	}
}

// TestNoAddressIsRight: when no address leads to a scheduler, the node says so.
func TestNoAddressIsRight(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(elsewhere.Close)
	if err := start(t, among(elsewhere.URL, elsewhere.URL+"/x"), node.Quick{}).over(); err == nil {
		t.Error("Run: nil")
	}
}

// TestFirstAddressIsRandom: nodes that start together do not all go to one instance.
func TestFirstAddressIsRandom(t *testing.T) {
	t.Parallel()
	a, b := newScheduler(t), newScheduler(t)
	begun := map[*scheduler]int{}
	for range 32 {
		bench := start(t, among(a.URL, b.URL), node.Quick{})
		_, at, _ := either(t, a, b)
		begun[at]++
		bench.stop()
		if err := bench.over(); err != nil {
			t.Fatal(err)
		}
	}
	if len(begun) != 2 {
		t.Error("all began at the same")
	}
}

// TestWhereToComeBack: after a cut, to the same; from one that is stopping, or asks to go, to another.
func TestWhereToComeBack(t *testing.T) {
	t.Parallel()
	a, b := newScheduler(t), newScheduler(t)
	start(t, among(a.URL, b.URL), node.Quick{})
	p, at, other := either(t, a, b)
	p.cut()
	p, now, _ := either(t, a, b)
	if now != at {
		t.Error("after a cut it went elsewhere")
	}
	_ = p.conn.Close(websocket.StatusCode(wire.CloseDraining), "")
	p, now, _ = either(t, a, b)
	if now != other {
		t.Error("it came back to one that is stopping")
	}
	p.send(wire.GoAway{})
	if _, now, _ = either(t, a, b); now != at {
		t.Error("asked to go, it came back")
	}
}

// TestAudioWhereItIs: an address without a host is read against the instance that gave it.
func TestAudioWhereItIs(t *testing.T) {
	t.Parallel()
	for range 4 {
		a, b := newScheduler(t), newScheduler(t)
		for _, s := range []*scheduler{a, b} {
			s.mux.HandleFunc("GET /v1/audio/a", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(s.URL)) })
		}
		serve(t, among(a.URL, b.URL), node.Quick{}, listen)
		p, at, _ := either(t, a, b)
		p.send(wire.JobAssign{JobID: "j-1", AttemptID: 1, Audio: &wire.Audio{URL: "/v1/audio/a"}})
		expect[wire.JobAck](p)
		wantHeard(t, p, at.URL)
	}
}

// TestGoAwayInTime: the node has left before half of the time is over, from when on the scheduler closes those who stay,
// and not all at the same moment.
func TestGoAwayInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		least, most := time.Hour, time.Duration(0)
		for range 200 {
			took := node.LeavesAfter(t.Context(), 8000)
			least, most = min(least, took), max(most, took)
		}
		if most >= 4*time.Second || most < 3*time.Second || least > time.Second {
			t.Errorf("left after %v to %v, want anything up to 4 s", least, most)
		}
	})
}
