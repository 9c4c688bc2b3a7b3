package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

type serveCmd struct {
	Config    string `help:"Config file (TOML). Print a documented one with: lingua config reference" type:"path" placeholder:"FILE"`
	Listen    string `help:"Address to listen on, such as 127.0.0.1:5010. Port 0 takes a free one." placeholder:"ADDR"`
	Store     string `help:"Where the shared truth is kept: memory." placeholder:"STORE"`
	Insecure  bool   `help:"Listen on other addresses than loopback without keys: whoever reaches the port controls the fleet."`
	LogLevel  string `help:"debug, info, warn or error." placeholder:"LEVEL"`
	LogFormat string `help:"text or json." placeholder:"FORMAT"`
}

// settings makes the configuration: defaults, then file, then environment, then flags.
func (c *serveCmd) settings(environ []string) (config.Config, error) {
	cfg, err := config.Load(c.Config, environ)
	if err != nil {
		return cfg, usageError{err}
	}
	if c.Listen != "" {
		host, port, err := net.SplitHostPort(c.Listen)
		if err != nil {
			return cfg, usageError{fmt.Errorf("--listen: %q is not an address such as 127.0.0.1:5010", c.Listen)}
		}
		if cfg.Server.Port, err = strconv.Atoi(port); err != nil {
			return cfg, usageError{fmt.Errorf("--listen: %q is not a port", port)}
		}
		cfg.Server.Host = host
	}
	for _, flag := range []struct {
		given string
		to    *string
	}{{c.Store, &cfg.Store}, {c.LogLevel, &cfg.Log.Level}, {c.LogFormat, &cfg.Log.Format}} {
		if flag.given != "" {
			*flag.to = flag.given
		}
	}
	cfg.Server.Insecure = cfg.Server.Insecure || c.Insecure
	if err := cfg.Validate(); err != nil {
		return cfg, usageError{err}
	}
	return cfg, nil
}

// Run serves until it is asked to stop.
func (c *serveCmd) Run(ctx context.Context, io streams) error {
	cfg, err := c.settings(io.environ)
	if err != nil {
		return err
	}
	log, err := telemetry.Logger(io.err, cfg.Log.Level, cfg.Log.Format)
	if err != nil {
		return usageError{err}
	}
	s, l, err := open(ctx, cfg, log)
	if err != nil {
		return err
	}
	if cfg.Server.Insecure && !config.Loopback(cfg.Server.Host) {
		log.Warn("INSECURE: there are no keys; whoever reaches this address controls the fleet", "address", l.Addr().String())
	} else {
		log.Info("there are no keys: only this machine can reach the scheduler")
	}
	return s.Run(ctx, l)
}

// open makes a scheduler and opens its port.
func open(ctx context.Context, cfg config.Config, log *slog.Logger) (*scheduler.Scheduler, net.Listener, error) {
	s, err := scheduler.New(cfg, version(), log, nil)
	if err != nil {
		return nil, nil, err
	}
	l, err := s.Listen(ctx)
	return s, l, err
}
