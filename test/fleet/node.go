package fleet

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/node"
)

// StartNodes runs nodes of package node until the end of the test, or until stop is called. A node that ends with an error fails the test.
// If not configured otherwise, nodes translate between English and Spanish, log nothing and wait a second for their jobs when they stop.
func StartNodes(tb testing.TB, handler node.Handler, nodes ...node.Config) (stop func()) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	var running sync.WaitGroup
	for _, cfg := range nodes {
		cfg.ShutdownTimeout = cmp.Or(cfg.ShutdownTimeout, time.Second)
		if cfg.Log == nil {
			cfg.Log = slog.New(slog.DiscardHandler)
		}
		if cfg.Declaration.SemanticLangs == nil {
			cfg.Declaration.SemanticLangs = []string{"en", "es"}
		}
		running.Go(func() {
			if err := node.Run(ctx, cfg, handler); err != nil {
				tb.Errorf("%s: %v", cfg.ID, err)
			}
		})
	}
	stop = func() {
		cancel()
		running.Wait()
	}
	tb.Cleanup(stop)
	return stop
}

// Answer returns a handler whose result is always the same.
func Answer(result node.Result) node.Handler {
	return func(context.Context, *node.Job) (node.Result, error) { return result, nil }
}

// Configs makes the configurations of some nodes.
func Configs(count int, of func(i int) node.Config) []node.Config {
	list := make([]node.Config, count)
	for i := range list {
		list[i] = of(i)
	}
	return list
}
