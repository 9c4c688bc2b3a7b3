package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/lab"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

type demoCmd struct {
	Listen        string        `help:"Address of the scheduler." default:"127.0.0.1:5010" placeholder:"ADDR"`
	Store         string        `help:"Shared store: memory, unless LINGUA_STORE names another, or the URL of a Redis such as redis://127.0.0.1:6379/0." placeholder:"STORE"`
	Insecure      bool          `help:"Listen on other addresses than loopback without keys: every client that reaches the port controls the demo."`
	Conversations int           `help:"Number of concurrent conversations." default:"60"`
	Duration      time.Duration `help:"Stop after this time; 0 runs until Ctrl-C." default:"0s"`
	LogLevel      string        `help:"Log level of the scheduler: debug, info, warn or error." default:"error" placeholder:"LEVEL"`
}

// Validate checks the flags before anything is started.
func (c *demoCmd) Validate() error {
	if c.Conversations < 0 || c.Conversations > 10_000 {
		return fmt.Errorf("--conversations: must be between 0 and 10000, not %d", c.Conversations)
	}
	if c.Duration < 0 {
		return fmt.Errorf("--duration: must be 0 or more, not %s", c.Duration)
	}
	return nil
}

// Run starts a scheduler, its nodes and its conversations, shows a summary of them, and stops them all.
func (c *demoCmd) Run(ctx context.Context, io streams) error {
	serve := serveCmd{Listen: c.Listen, Store: c.Store, Insecure: c.Insecure, LogLevel: c.LogLevel}
	cfg, _, err := serve.loadConfig(io.environ)
	if err != nil {
		return err
	}
	// Short timeouts: a demo of one minute must show what a node that loses its jobs does to them.
	cfg.Scheduler.Dispatch.ACKTimeoutMS = 500
	cfg.Scheduler.Dispatch.AttemptTimeoutMS = 4_000
	cfg.Scheduler.Sessions.PerAddress, cfg.Server.PerAddress = 0, 0
	cfg.Server.ShutdownSeconds = 3
	if len(cfg.Scheduler.Tenants) == 0 {
		cfg.Scheduler.Tenants = demoTenants()
	}
	cfg.Server.TLSCert, cfg.Server.TLSKey = "", "" // its nodes and conversations are on this machine
	log, err := telemetry.Logger(io.err, cfg.Log.Level, cfg.Log.Format)
	if err != nil {
		return usageError{err}
	}
	if cfg.Scheduler.ModelHub.URL == "" {
		hub, err := startModelHub(ctx, "127.0.0.1:0", lab.NewModelHub("", lab.DemoServices()...))
		if err != nil {
			return err
		}
		defer func() { _ = hub.stop() }()
		cfg.Scheduler.ModelHub.URL = hub.url
	}
	s, l, err := newListeningScheduler(ctx, cfg, log, "demo")
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

	dash := newDashboard(io.out, "http://"+reachableAddress(l.Addr()), s)
	fleet, stopFleet := startFleet(ctx, dash.url, dash.nodes)
	c.runConversations(ctx, dash)
	// The nodes stay until the scheduler has stopped, so that in-flight jobs are done.
	stopServing()
	err = <-served
	stopFleet()
	fleet.Wait()
	if err == nil {
		dash.finish()
	}
	return err
}

// demoTenants are the tenants of the callers that wait in line for a small node. One has three times the weight, the other a limit.
func demoTenants() []config.Tenant {
	weight := 3.0
	return []config.Tenant{{ID: "acme", Weight: &weight, MaxInFlight: 10}, {ID: "globex", DispatchPerSecond: 2}}
}

// rivalCallers is how many callers of each tenant wait in line.
const rivalCallers = 6

// startFleet connects the nodes. They run until the returned function is called; the group waits for them.
func startFleet(ctx context.Context, url string, nodes []*lab.SocketNode) (*sync.WaitGroup, context.CancelFunc) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	fleet := new(sync.WaitGroup)
	for _, f := range nodes {
		fleet.Go(func() { _ = f.Run(ctx, url, slog.New(slog.DiscardHandler)) }) // the error is that of the cancelled context
	}
	return fleet, stop
}

// Every badConnectionEvery-th conversation loses its connection every badConnectionAfter.
const (
	badConnectionEvery = 10
	badConnectionAfter = 5 * time.Second
)

// runConversations runs the conversations and the dashboard until the context ends.
func (c *demoCmd) runConversations(ctx context.Context, dash *dashboard) {
	peer := lab.NewAPI(dash.url)
	defer peer.Close()
	if lab.WaitNodes(ctx, peer, len(dash.nodes)) != nil {
		return // the context ended before all nodes had registered
	}
	var conversations sync.WaitGroup
	if c.Conversations > 0 {
		rivals := &lab.Rivals{URL: dash.url, Callers: rivalCallers}
		for _, t := range demoTenants() {
			rivals.Tenants = append(rivals.Tenants, t.ID)
		}
		conversations.Go(func() { rivals.Run(ctx) })
	}
	for i := range c.Conversations {
		conv := &lab.Conversation{
			URL: dash.url, Langs: lab.LanguagePairs[i%len(lab.LanguagePairs)], Pause: lab.LogNormal(600*time.Millisecond, 0.5),
			OnUtterance: dash.recordUtterance, OnResume: dash.recordResume,
		}
		if i%badConnectionEvery == badConnectionEvery-1 {
			conv.ConnectionLifetime = badConnectionAfter
		}
		conversations.Go(func() {
			if err := conv.Run(ctx); err != nil && ctx.Err() == nil {
				dash.recordLostSession()
			}
		})
	}
	dash.run(ctx)
	conversations.Wait()
}
