package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/sim"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

type demoCmd struct {
	Listen        string        `help:"Address of the scheduler." default:"127.0.0.1:5010" placeholder:"ADDR"`
	Store         string        `help:"Where the shared truth is kept: memory, or the URL of a Redis such as redis://127.0.0.1:6379/0." default:"memory" placeholder:"STORE"`
	Insecure      bool          `help:"Listen on other addresses than loopback without keys: whoever reaches the port controls the demo."`
	Conversations int           `help:"How many conversations are held at once." default:"60"`
	Duration      time.Duration `help:"End after this long; 0 runs until Ctrl-C." default:"0s"`
	LogLevel      string        `help:"Log what the scheduler does: debug, info, warn or error." default:"error" placeholder:"LEVEL"`
}

// Validate checks the flags before anything is started.
func (c *demoCmd) Validate() error {
	if c.Conversations < 0 || c.Conversations > 10_000 {
		return fmt.Errorf("--conversations: must be between 0 and 10000, not %d", c.Conversations)
	}
	if c.Duration < 0 {
		return fmt.Errorf("--duration: must not be negative, as %s is", c.Duration)
	}
	return nil
}

// Run starts a scheduler, its nodes and its conversations, shows what happens, and ends them all.
func (c *demoCmd) Run(ctx context.Context, io streams) error {
	settings := serveCmd{Listen: c.Listen, Store: c.Store, Insecure: c.Insecure, LogLevel: c.LogLevel}
	cfg, err := settings.settings(io.environ)
	if err != nil {
		return err
	}
	// A demo shows in a minute what takes a fleet an hour: a node that forgets its jobs is noticed sooner.
	cfg.Scheduler.Dispatch.ACKTimeoutMS = 500
	cfg.Server.ShutdownSeconds = 3
	log, err := telemetry.Logger(io.err, cfg.Log.Level, cfg.Log.Format)
	if err != nil {
		return usageError{err}
	}
	s, l, err := open(ctx, cfg, log, "demo")
	if err != nil {
		return err
	}
	if c.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Duration)
		defer cancel()
	}

	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	served := make(chan error, 1)
	go func() { served <- s.Run(serving, l) }()

	url := "http://" + reachable(l.Addr())
	show := newScreen(io.out, url, s)
	peer := sim.NewPeer(url)
	defer peer.Close()
	err = c.cast(ctx, peer, show)
	switch {
	case err == nil:
		c.play(ctx, peer, show)
	case ctx.Err() != nil:
		err = nil // it was ended before it had begun
	}
	// The nodes stay until the scheduler has stopped: jobs in flight end well.
	stopServing()
	if runErr := <-served; err == nil {
		err = runErr
	}
	for _, a := range show.nodes {
		a.node.Kill()
	}
	if err == nil {
		show.end()
	}
	return err
}

// cast starts the fleet.
func (c *demoCmd) cast(ctx context.Context, peer *sim.Peer, show *screen) error {
	for _, f := range sim.Cast() {
		n, err := sim.StartNode(ctx, peer, f.Options)
		if err != nil {
			return err
		}
		show.nodes = append(show.nodes, actor{node: n, langs: f.Options.Declaration.SemanticLangs, fault: f.Fault})
	}
	return nil
}

// play holds the conversations until the context ends.
func (c *demoCmd) play(ctx context.Context, peer *sim.Peer, show *screen) {
	var talks sync.WaitGroup
	for i := range c.Conversations {
		conv := &sim.Conversation{
			ID: fmt.Sprintf("talk-%03d", i), Langs: sim.Pairs[i%len(sim.Pairs)],
			Pause: sim.Around(700 * time.Millisecond), Poll: 25 * time.Millisecond, Heard: show.heard,
		}
		talks.Go(func() { conv.Run(ctx, peer) })
	}
	show.run(ctx)
	talks.Wait()
}
