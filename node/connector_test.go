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

// awaitEither waits for the node to connect to one of two schedulers, and returns that one and the other one.
func awaitEither(t *testing.T, a, b *fakeScheduler) (p *nodeConn, at, other *fakeScheduler) {
	t.Helper()
	select {
	case p = <-a.conns:
		at, other = a, b
	case p = <-b.conns:
		at, other = b, a
	case <-time.After(timeout):
		t.Fatal("the node did not connect")
	}
	expect[wire.NodeRegister](p)
	p.send(defaultAck)
	p.sync()
	return p, at, other
}

// configFor returns the configuration of a node with several endpoints.
func configFor(urls ...string) node.Config {
	cfg := testConfig(urls[0])
	cfg.URLs = urls[1:]
	return cfg
}

// The node finds the scheduler among endpoints that are down, silent, stopping, or something else.
func TestConnectsToLiveEndpoint(t *testing.T) {
	t.Parallel()
	vanished, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and never answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { vanished.Close() })
	stopping := newFakeScheduler(t)
	stopping.refuseStatus.Store(http.StatusServiceUnavailable)
	elsewhere := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(elsewhere.Close)
	for range 8 {
		s := newFakeScheduler(t)
		startNode(t, configFor("http://127.0.0.1:1", "http://"+vanished.Addr().String(), elsewhere.URL, s.URL, stopping.URL), node.FastTiming{DialTimeout: 100 * time.Millisecond})
		p := s.awaitConn()
		for _, ok := p.next(); !ok; _, ok = p.next() { // on a slow machine the live endpoint may time out too
			p = s.awaitConn()
		}
		p.send(defaultAck)
		p.assign("j-1")
	}
}

func TestRunFailsIfNoEndpointIsAScheduler(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(elsewhere.Close)
	if err := startNode(t, configFor(elsewhere.URL, elsewhere.URL+"/x"), node.FastTiming{}).awaitResult(); err == nil {
		t.Error("Run: nil")
	}
}

func TestFirstEndpointIsRandom(t *testing.T) {
	t.Parallel()
	a, b := newFakeScheduler(t), newFakeScheduler(t)
	first := map[*fakeScheduler]int{}
	for range 32 {
		n := startNode(t, configFor(a.URL, b.URL), node.FastTiming{})
		_, at, _ := awaitEither(t, a, b)
		first[at]++
		n.stop()
		if err := n.awaitResult(); err != nil {
			t.Fatal(err)
		}
	}
	if len(first) != 2 {
		t.Error("all nodes began at the same endpoint")
	}
}

// After a lost connection the node returns to the same endpoint, after CloseDraining or GoAway it moves to another one.
func TestEndpointAfterLostConnection(t *testing.T) {
	t.Parallel()
	a, b := newFakeScheduler(t), newFakeScheduler(t)
	startNode(t, configFor(a.URL, b.URL), node.FastTiming{})
	p, at, other := awaitEither(t, a, b)
	p.drop()
	p, now, _ := awaitEither(t, a, b)
	if now != at {
		t.Error("after a lost connection the node moved")
	}
	_ = p.ws.Close(websocket.StatusCode(wire.CloseDraining), "")
	p, now, _ = awaitEither(t, a, b)
	if now != other {
		t.Error("the node returned to an instance that is stopping")
	}
	p.send(wire.GoAway{})
	if _, now, _ = awaitEither(t, a, b); now != at {
		t.Error("after GoAway the node returned")
	}
}

func TestRelativeAudioURLResolvesAgainstInstance(t *testing.T) {
	t.Parallel()
	for range 4 {
		a, b := newFakeScheduler(t), newFakeScheduler(t)
		for _, s := range []*fakeScheduler{a, b} {
			s.mux.HandleFunc("GET /v1/audio/a", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(s.URL)) })
		}
		startNodeWith(t, configFor(a.URL, b.URL), node.FastTiming{}, echoAudio)
		p, at, _ := awaitEither(t, a, b)
		p.send(wire.JobAssign{JobID: "j-1", AttemptID: 1, Audio: &wire.Audio{URL: "/v1/audio/a"}})
		expect[wire.JobAck](p)
		expectEcho(t, p, at.URL)
	}
}

// The scheduler begins to close connections after half of the time. Moves are spread over the time before that.
func TestGoAwayMovesWithinHalfTheTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shortest, longest := time.Hour, time.Duration(0)
		for range 200 {
			took := node.MoveDelay(t.Context(), 8000)
			shortest, longest = min(shortest, took), max(longest, took)
		}
		if longest >= 4*time.Second || longest < 3*time.Second || shortest > time.Second {
			t.Errorf("moved after %v to %v, want anything up to 4 s", shortest, longest)
		}
	})
}

// Jobs continue during the move. A job that the new registration does not list is rejected.
func TestGoAwayConnectsBeforeLeaving(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	n := startNode(t, testConfig(s.URL), node.FastTiming{})
	old, _ := s.register(defaultAck)
	key := old.assign("j-1")
	j := n.awaitCall()
	old.send(wire.GoAway{Reason: "stopping", ReconnectMS: 50})
	next := s.awaitConn()
	r := expect[wire.NodeRegister](next)
	if r.ResumeToken != defaultAck.ResumeToken || len(r.Active) != 1 || r.Active[0].ActiveJob != key {
		t.Errorf("registered again with %+v", r)
	}
	old.send(wire.JobAssign{JobID: "j-2", AttemptID: 1})
	if got := expect[wire.JobReject](old); got.Reason != "NODE_BUSY" {
		t.Errorf("rejected with %q", got.Reason)
	}
	// The scheduler may close the old connection before it answers on the new one.
	_ = old.ws.Close(websocket.StatusCode(wire.CloseReplaced), "")
	next.send(defaultAck)
	next.expectAck(key)
	j.finish("hola")
	expect[wire.JobResult](next)
	next.assign("j-3")
	<-old.done
}

func TestGoAwayClosesOldConnection(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	startNode(t, testConfig(s.URL), node.FastTiming{})
	old, _ := s.register(defaultAck)
	old.send(wire.GoAway{})
	next, _ := s.register(defaultAck)
	receive(t, awaitClose(old), "the end of the old connection")
	next.assign("j-1")
}

// The node stays while its connection lasts, and retries. That a failed registration replaces the old connection must not
// end the node.
func TestGoAwayRetriesWhileOldConnectionLasts(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	startNode(t, testConfig(s.URL), node.FastTiming{})
	old, _ := s.register(defaultAck)
	old.send(wire.GoAway{ReconnectMS: 1})
	next := s.awaitConn()
	expect[wire.NodeRegister](next)
	next.drop()
	next = s.awaitConn()
	expect[wire.NodeRegister](next)
	_ = old.ws.Close(websocket.StatusCode(wire.CloseReplaced), "")
	next.drop()
	next, _ = s.register(defaultAck)
	next.assign("j-1")
}

func TestGoAwayToRefusingInstance(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	n := startNode(t, testConfig(s.URL), node.FastTiming{})
	old, _ := s.register(defaultAck)
	s.refuseStatus.Store(401)
	old.send(wire.GoAway{ReconnectMS: 1})
	if err := n.awaitResult(); err == nil {
		t.Error("Run: nil, want an error")
	}
	receive(t, awaitClose(old), "the end of the old connection")
}
