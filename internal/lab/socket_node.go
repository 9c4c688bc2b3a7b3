package lab

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

// SocketNode is a node of the demo, connected by its socket.
type SocketNode struct {
	ID                 string
	Langs              []string
	Slots              int
	Worker             *Worker
	ConnectionLifetime time.Duration // the mean lifetime of a connection; 0: no limit
	Fault              string        // a description of its fault, for the screen of the demo
	Token              string        // empty: the scheduler has no keys
}

// DemoNodes returns the nodes of the demo, with different languages, capacities, speeds and faults.
func DemoNodes() []*SocketNode {
	europe, asia := []string{"en", "de", "fr", "es"}, []string{"en", "zh", "ja", "ko"}
	global := []string{"en", "de", "fr", "es", "zh", "ja"}
	newNode := func(id string, langs []string, slots, ms int) *SocketNode {
		return &SocketNode{ID: id, Langs: langs, Slots: slots,
			Worker: &Worker{JobDuration: LogNormal(time.Duration(ms)*time.Millisecond, 0.4)}}
	}
	faulty := func(n *SocketNode, fault string, change func(*SocketNode)) *SocketNode {
		n.Fault = fault
		change(n)
		return n
	}
	return []*SocketNode{
		newNode("oslo", europe, 4, 300),
		newNode("paris", europe, 4, 350),
		newNode("madrid", europe, 2, 250),
		newNode("tokyo", asia, 4, 300),
		newNode("seoul", asia, 4, 400),
		newNode("taipei", asia, 2, 250),
		newNode("geneva", global, 8, 500),
		faulty(newNode("nairobi", global, 4, 900), "slow", func(*SocketNode) {}),
		faulty(newNode("lima", global, 4, 300), "fails 1 in 5", func(n *SocketNode) { n.Worker.Fail = 0.2 }),
		faulty(newNode("cairo", global, 2, 300), "hangs 1 in 10", func(n *SocketNode) { n.Worker.Hang = 0.1 }),
		faulty(newNode("delhi", asia, 4, 350), "rejects 1 in 5", func(n *SocketNode) { n.Worker.Reject = 0.2 }),
		faulty(newNode("quito", europe, 2, 300), "disconnects", func(n *SocketNode) { n.ConnectionLifetime = 3 * time.Second }),
	}
}

// Run runs the node until the context ends and its jobs have ended.
func (n *SocketNode) Run(ctx context.Context, url string, log *slog.Logger) error {
	return node.Run(ctx, node.Config{
		URL: url, Token: n.Token, ID: n.ID, Slots: n.Slots, Log: log, HTTPClient: unstableClient(n.ConnectionLifetime),
		ShutdownTimeout: time.Second, OnFull: n.Worker.countOverAssigned,
		Declaration: wire.Declaration{SemanticLangs: n.Langs, ASRLangs: n.Langs, TTSLangs: n.Langs, InstalledServices: demoServices()},
	}, n.Worker.Do)
}

// demoServices are the services of the demo's ModelHub, as a node declares them.
func demoServices() []wire.Service {
	var list []wire.Service
	for _, s := range DemoServices() {
		list = append(list, wire.Service{ServiceID: s.ServiceID, Version: s.Versions[0], Type: s.Type, Status: "ready"})
	}
	return list
}

// WaitNodes waits until the scheduler knows a number of nodes.
func WaitNodes(ctx context.Context, api *API, count int) error {
	var out wire.NodeList
	run.Backoff{Min: 10 * time.Millisecond, Max: 100 * time.Millisecond}.Retry(ctx, func() error {
		if err := api.Get(ctx, "/v1/nodes", &out); err != nil {
			return err
		}
		if len(out.Nodes) < count {
			return fmt.Errorf("%d nodes of %d", len(out.Nodes), count)
		}
		return nil
	})
	return ctx.Err()
}
