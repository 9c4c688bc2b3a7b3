package main

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

type serveCmd struct {
	Config    string `help:"Config file (TOML). Print a documented one with: lingua config reference" type:"path" placeholder:"FILE"`
	Listen    string `help:"Address to listen on, such as 127.0.0.1:5010. Port 0 takes a free one." placeholder:"ADDR"`
	Store     string `help:"Where the shared truth is kept: memory, or the URL of a Redis such as redis://127.0.0.1:6379/0." placeholder:"STORE"`
	Insecure  bool   `help:"Listen on other addresses than loopback without keys: whoever reaches the port controls the fleet."`
	LogLevel  string `help:"debug, info, warn or error." placeholder:"LEVEL"`
	LogFormat string `help:"text or json." placeholder:"FORMAT"`
}

// settings makes the configuration: defaults, then file, then environment, then flags.
func (c *serveCmd) settings(environ []string) (config.Config, error) {
	draft := config.Load(c.Config, environ)
	cfg := &draft.Config
	if c.Listen != "" {
		host, port, err := net.SplitHostPort(c.Listen)
		if err != nil {
			return *cfg, usageError{fmt.Errorf("--listen: %q is not an address such as 127.0.0.1:5010", c.Listen)}
		}
		if cfg.Server.Port, err = strconv.Atoi(port); err != nil {
			return *cfg, usageError{fmt.Errorf("--listen: %q is not a port", port)}
		}
		cfg.Server.Host = host
		draft.RecordSource("--listen", "server.host", "server.port")
	}
	for _, flag := range []struct {
		name, given, key string
		to               *string
	}{
		{"--store", c.Store, "store", &cfg.Store},
		{"--log-level", c.LogLevel, "log.level", &cfg.Log.Level},
		{"--log-format", c.LogFormat, "log.format", &cfg.Log.Format},
	} {
		if flag.given != "" {
			*flag.to = flag.given
			draft.RecordSource(flag.name, flag.key)
		}
	}
	cfg.Server.Insecure = cfg.Server.Insecure || c.Insecure
	done, err := draft.Validate()
	if err != nil {
		return done, usageError{err}
	}
	return done, nil
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
	s, l, err := open(ctx, cfg, log, "serve")
	if err != nil {
		return err
	}
	switch {
	case len(cfg.Auth.OperatorKeys) > 0:
	case cfg.Server.Insecure && !config.IsLoopback(cfg.Server.Host):
		log.Warn("INSECURE: there are no keys; whoever reaches this address controls the fleet", "address", l.Addr().String())
	default:
		log.Info("there are no keys: only this machine can reach the scheduler")
	}
	return s.Run(ctx, l)
}
