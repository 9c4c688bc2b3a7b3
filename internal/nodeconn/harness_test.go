package nodeconn

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// testTimeout bounds every wait of these tests.
const testTimeout = 20 * time.Second

// TestMain checks that no goroutine outlives the tests.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newStore() *memstore.Store {
	return memstore.New(store.Timing{Presence: 15 * time.Second, Job: 30 * time.Second})
}

// instance is an instance with its connections of nodes, and what it gives to its dispatcher and to nodes with a callback URL.
type instance struct {
	*Conns
	returned  recordingDispatcher
	callbacks *recordingTransport
}

// recordingDispatcher records the jobs that were not delivered.
type recordingDispatcher chan dispatch.Report

// Fail implements Failer.
func (d recordingDispatcher) Fail(_ context.Context, r dispatch.Report, reason core.Reason, _ string) error {
	if reason == core.ReasonDeliveryRefused {
		d <- r
	}
	return nil
}

// recordingTransport records deliveries and cancellations by callback URL.
type recordingTransport struct {
	delivered chan *wire.Assignment
	cancelled chan core.JobID
}

// Deliver implements dispatch.Transport.
func (r *recordingTransport) Deliver(_ context.Context, _ *core.Node, a *wire.Assignment) error {
	r.delivered <- a
	return nil
}

// Cancel implements dispatch.Transport.
func (r *recordingTransport) Cancel(_ context.Context, _ core.NodeID, job core.JobID, _ int) {
	r.cancelled <- job
}

// startInstance starts an instance. Every node is connected to owner, as far as it knows. Without receive it has an inbox that it
// does not read.
func startInstance(t *testing.T, st *memstore.Store, id, owner core.InstanceID, receive bool) *instance {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	b := bus.New(bus.Config{Instance: id, TTL: time.Minute, Block: 10 * time.Millisecond, Keep: time.Hour, About: func() bus.About { return bus.About{} }},
		st, telemetry.New(), log)
	i := &instance{
		returned:  make(recordingDispatcher, 10),
		callbacks: &recordingTransport{delivered: make(chan *wire.Assignment, 10), cancelled: make(chan core.JobID, 10)},
	}
	i.Conns = NewConns(Options{
		HTTP: i.callbacks, Audio: audio.NewBuffer(1 << 20), URLs: audio.URLs{Signer: auth.Signer("a secret")}, Bus: b,
		Owner: func(core.NodeID) core.InstanceID { return owner }, ACKTimeout: time.Minute,
	})
	i.Advertise("http://" + string(id))
	if err := b.Announce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !receive {
		return i
	}
	r := bus.NewReceiver(b, i.Handlers(i.returned), func(context.Context, core.InstanceID) error { return nil })
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	return i
}

// nodeSocket is the node's end of a connection.
type nodeSocket struct {
	t  *testing.T
	ws *websocket.Conn
}

// connectNode connects a node that is registered in an epoch.
func (i *instance) connectNode(t *testing.T, id core.NodeID, epoch core.Epoch) *nodeSocket {
	t.Helper()
	hub := socket.NewHub(socket.Options{Log: slog.New(slog.DiscardHandler)})
	accepted := make(chan *socket.Conn, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, err := hub.Accept(w, r); err == nil {
			accepted <- c
		}
	}))
	ws, _, err := websocket.Dial(t.Context(), strings.Replace(srv.URL, "http", "ws", 1), &websocket.DialOptions{Subprotocols: []string{wire.Subprotocol}})
	if err != nil {
		t.Fatal(err)
	}
	i.add(&conn{ws: <-accepted, id: id, connection: i.newConnectionID(), epoch: epoch})
	t.Cleanup(func() {
		_ = ws.CloseNow()
		_ = hub.Close(context.WithoutCancel(t.Context()))
		srv.Close()
	})
	return &nodeSocket{t: t, ws: ws}
}

// read reads a message of a type into m.
func (n *nodeSocket) read(m wire.Frame) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), testTimeout)
	defer cancel()
	_, text, err := n.ws.Read(ctx)
	if err != nil {
		n.t.Fatal(err)
	}
	if typ, err := wire.TypeOf(text); err != nil || typ != m.Type() {
		n.t.Fatalf("want %s, got %s", m.Type(), text)
	}
	if err := json.Unmarshal(text, m); err != nil {
		n.t.Fatal(err)
	}
}

// receive receives from a channel, or fails the test after testTimeout.
func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(testTimeout):
		t.Fatal("timeout: nothing was received")
		panic("unreachable")
	}
}
