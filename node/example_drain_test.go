package node_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

// A node that ends when the operator drains it, once it has finished what it has: its supervisor starts the new version.
func ExampleConfig_onDrain() {
	scheduler := httptest.NewServer(http.HandlerFunc(drainAtOnce))
	defer scheduler.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	err := node.Run(ctx, node.Config{
		URL: scheduler.URL, Slots: 4, Log: slog.New(slog.DiscardHandler),
		Declaration: wire.Declaration{SemanticLangs: []string{"en", "es"}},
		OnDrain: func(drained bool) {
			fmt.Println("drained:", drained)
			stop()
		},
	}, func(context.Context, *node.Job) (node.Result, error) { return node.Result{}, node.ErrBusy })
	fmt.Println("Run:", err)
	// Output:
	// drained: true
	// Run: <nil>
}

// drainAtOnce is a scheduler whose operator wants no nodes.
func drainAtOnce(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{wire.Subprotocol}})
	if err != nil {
		return
	}
	defer conn.CloseNow()
	for _, f := range []wire.Frame{wire.NodeRegisterAck{NodeID: "n-1", Epoch: 1}, wire.Drain{Drained: true}} {
		text, _ := wire.EncodeFrame(f)
		_ = conn.Write(r.Context(), websocket.MessageText, text)
	}
	for err == nil {
		_, _, err = conn.Read(r.Context())
	}
}
