package node_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

// A node whose GPU has become too hot keeps its jobs and asks for no more, until it has cooled.
func ExampleNode_Update() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	n, err := node.New(node.Config{
		URL: "http://127.0.0.1:5010", Slots: 4, Log: slog.New(slog.DiscardHandler),
		Declaration: wire.Declaration{SemanticLangs: []string{"en", "es"}},
	}, func(context.Context, *node.Job) (node.Result, error) { return node.Result{}, node.ErrBusy })
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error)
	go func() { ended <- n.Run(ctx) }()

	fmt.Println("hot:", n.Update(wire.Declaration{Health: "degraded"}))
	fmt.Println("cool:", n.Update(wire.Declaration{Health: "ready"}))
	fmt.Println("odd:", n.Update(wire.Declaration{Health: "lukewarm"}))

	stop()
	fmt.Println("Run:", <-ended)
	// Output:
	// hot: <nil>
	// cool: <nil>
	// odd: node: Health is "lukewarm"; it may be ready, degraded, draining or offline
	// Run: <nil>
}
