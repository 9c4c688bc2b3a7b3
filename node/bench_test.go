package node_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

// bench is where a test does the node's work by hand.
type bench struct {
	t     *testing.T
	begun chan *piece
	stop  context.CancelFunc
	ended chan error
}

// piece is one job on it. The handler returns what is put into reply, or when its context ends.
type piece struct {
	*node.Job
	ctx   context.Context
	reply chan reply
}

type reply struct {
	node.Result
	err error
}

func basic(url string) node.Config {
	return node.Config{
		URL: url, Slots: 2, Log: slog.New(slog.DiscardHandler),
		Declaration: wire.Declaration{SemanticLangs: []string{"en", "es"}},
	}
}

// start runs a node whose work is done by the test.
func start(t *testing.T, cfg node.Config, q node.Quick) *bench {
	t.Helper()
	b := &bench{t: t, begun: make(chan *piece, 64)}
	b.run(cfg, q, func(ctx context.Context, job *node.Job) (node.Result, error) {
		p := &piece{Job: job, ctx: ctx, reply: make(chan reply, 1)}
		b.begun <- p
		select {
		case r := <-p.reply:
			return r.Result, r.err
		case <-ctx.Done():
			return node.Result{}, ctx.Err()
		}
	})
	return b
}

// serve runs a node with a handler.
func serve(t *testing.T, cfg node.Config, q node.Quick, h node.Handler) *bench {
	t.Helper()
	b := &bench{t: t}
	b.run(cfg, q, h)
	return b
}

func (b *bench) run(cfg node.Config, q node.Quick, h node.Handler) {
	ctx, stop := context.WithCancel(context.Background())
	b.stop, b.ended = stop, make(chan error, 1)
	if cfg.ShutdownTimeout == 0 {
		cfg.ShutdownTimeout = 1 // a test that is over does not wait for what it left undone
	}
	if q.Quit == 0 {
		q.Quit = 200 * time.Millisecond
	}
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		b.ended <- q.Run(ctx, cfg, h)
	}()
	b.t.Cleanup(func() {
		stop()
		<-finished
	})
}

// next waits for the handler to be called.
func (b *bench) next() *piece {
	b.t.Helper()
	return receive(b.t, b.begun, "a call of the handler")
}

// over waits for Run to return.
func (b *bench) over() error {
	b.t.Helper()
	return receive(b.t, b.ended, "the end of Run")
}

func (p *piece) done(text string) {
	p.reply <- reply{Result: node.Result{TextSrc: "heard", TextTgt: text}}
}
