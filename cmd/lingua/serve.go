package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

type serveCmd struct {
	Config    string `help:"Config file (TOML). Print a documented one with: lingua config reference" type:"path" placeholder:"FILE"`
	Listen    string `help:"Address to listen on, such as 127.0.0.1:5010. Port 0 picks a free one." placeholder:"ADDR"`
	Store     string `help:"Shared store: memory, or the URL of a Redis such as redis://127.0.0.1:6379/0." placeholder:"STORE"`
	Insecure  bool   `help:"Listen on other addresses than loopback without keys: every client that reaches the port controls the fleet."`
	LogLevel  string `help:"Log level: debug, info, warn or error." placeholder:"LEVEL"`
	LogFormat string `help:"Log format: text or json." placeholder:"FORMAT"`
}

// loadConfig loads the configuration: defaults, then file, then environment, then flags.
func (c *serveCmd) loadConfig(environ []string) (config.Config, []string, error) {
	loaded := config.Load(c.Config, environ)
	cfg := &loaded.Config
	if c.Listen != "" {
		host, port, err := net.SplitHostPort(c.Listen)
		if err != nil {
			return *cfg, nil, usageError{fmt.Errorf("--listen: %q is not an address such as 127.0.0.1:5010", c.Listen)}
		}
		if cfg.Server.Port, err = strconv.Atoi(port); err != nil {
			return *cfg, nil, usageError{fmt.Errorf("--listen: %q is not a port", port)}
		}
		cfg.Server.Host = host
		loaded.RecordSource("--listen", "server.host", "server.port")
	}
	for _, flag := range []struct {
		name, value, key string
		target           *string
	}{
		{"--store", c.Store, "store", &cfg.Store},
		{"--log-level", c.LogLevel, "log.level", &cfg.Log.Level},
		{"--log-format", c.LogFormat, "log.format", &cfg.Log.Format},
	} {
		if flag.value != "" {
			*flag.target = flag.value
			loaded.RecordSource(flag.name, flag.key)
		}
	}
	cfg.Server.Insecure = cfg.Server.Insecure || c.Insecure
	checked, warnings, err := loaded.Validate()
	if err != nil {
		return checked, nil, usageError{err}
	}
	return checked, warnings, nil
}

// Run runs the scheduler until the context ends.
func (c *serveCmd) Run(ctx context.Context, io streams) error {
	cfg, warnings, err := c.loadConfig(io.environ)
	if err != nil {
		return err
	}
	log, err := telemetry.Logger(io.err, cfg.Log.Level, cfg.Log.Format)
	if err != nil {
		return usageError{err}
	}
	for _, w := range warnings {
		log.Warn("the configuration has a warning", "warning", w)
	}
	s, l, err := newListeningScheduler(ctx, cfg, log, "serve")
	if err != nil {
		return err
	}
	s.SetConfigFile(c.Config)
	s.SetConfigSource(func() (config.Config, []string, error) { return c.loadConfig(io.environ) })
	defer onHangup(io.hangups, func() {
		// First, and whatever becomes of the reload: a log rotation must not depend on the configuration.
		if err := s.ReopenAudit(); err != nil {
			log.Error("the audit file could not be opened again; the open one stays in use", "error", err)
		}
		_, _ = s.Reload(config.ReloadRequest{}) // it logs the error
	})()
	switch {
	case cfg.Auth.Configured():
	case cfg.Server.Insecure && !config.IsLoopback(cfg.Server.Host):
		log.Warn("INSECURE: no keys are configured; every client that reaches this address controls the fleet", "address",
			l.Addr().String())
	default:
		log.Info("no keys are configured: only this machine can reach the scheduler")
	}
	return s.Run(ctx, l)
}

// onHangup calls fn on every signal, until the returned function is called.
func onHangup(hangups func() (<-chan os.Signal, func()), fn func()) (stop func()) {
	if hangups == nil {
		return func() {}
	}
	signals, stopSignals := hangups()
	ended := make(chan struct{})
	var waiting sync.WaitGroup
	waiting.Go(func() {
		for {
			select {
			case <-signals:
				fn()
			case <-ended:
				return
			}
		}
	})
	return func() {
		stopSignals()
		close(ended)
		waiting.Wait()
	}
}
