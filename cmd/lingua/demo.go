package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/sim"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

type demoCmd struct {
	Listen        string        `help:"Address of the scheduler." default:"127.0.0.1:5010" placeholder:"ADDR"`
	Store         string        `help:"Where the shared truth is kept: memory, unless LINGUA_STORE says otherwise, or the URL of a Redis such as redis://127.0.0.1:6379/0." placeholder:"STORE"`
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
	cfg.Scheduler.Dispatch.AttemptTimeoutMS = 4_000
	cfg.Scheduler.Sessions.PerAddress, cfg.Server.PerAddress = 0, 0
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

	show := newScreen(io.out, "http://"+reachable(l.Addr()), s)
	fleet, endFleet := startFleet(ctx, show.url, show.nodes)
	c.play(ctx, show)
	// The nodes stay until the scheduler has stopped: jobs in flight end well.
	stopServing()
	err = <-served
	endFleet()
	fleet.Wait()
	if err == nil {
		show.end()
	}
	return err
}

// startFleet connects the nodes, which leave when they are told to.
func startFleet(ctx context.Context, url string, nodes []*sim.SocketNode) (*sync.WaitGroup, context.CancelFunc) {
	ctx, leave := context.WithCancel(context.WithoutCancel(ctx))
	fleet := new(sync.WaitGroup)
	for _, f := range nodes {
		fleet.Go(func() { _ = f.Run(ctx, url, slog.New(slog.DiscardHandler)) }) // what it says when it is told to go is no news
	}
	return fleet, leave
}

// badLines is one in how many conversations has a bad line, and badLine how long it lasts.
const (
	badLines = 10
	badLine  = 5 * time.Second
)

// play holds the conversations until the context ends.
func (c *demoCmd) play(ctx context.Context, show *screen) {
	peer := sim.NewAPI(show.url)
	defer peer.Close()
	if sim.WaitNodes(ctx, peer, len(show.nodes)) != nil {
		return // it was ended before it had begun
	}
	var talks sync.WaitGroup
	for i := range c.Conversations {
		conv := &sim.Conversation{
			URL: show.url, Langs: sim.LanguagePairs[i%len(sim.LanguagePairs)], Pause: sim.LogNormal(600*time.Millisecond, 0.5),
			OnUtterance: show.heard, OnResume: show.resumed,
		}
		if i%badLines == badLines-1 {
			conv.ConnectionLifetime = badLine
		}
		talks.Go(func() {
			if err := conv.Run(ctx); err != nil && ctx.Err() == nil {
				show.lost()
			}
		})
	}
	show.run(ctx)
	talks.Wait()
}
