package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/health"
	"github.com/lingua-scheduler/lingua/internal/lab"
)

type modelHubCmd struct {
	Listen   string `help:"Address to listen on; only this machine can reach it." default:"127.0.0.1:5020" placeholder:"ADDR"`
	Services string `help:"A file with the list of services, as JSON; those of the demo by default." type:"path" placeholder:"FILE"`
	Token    string `help:"Answer only requests with this token." placeholder:"TOKEN"`
	Fault    string `help:"How it misbehaves: none, fail, hang, rubbish, empty, oversized or redirect. PUT /fault changes it." default:"none" placeholder:"FAULT"`
}

// Validate checks the flags before anything is started.
func (c *modelHubCmd) Validate() error {
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil || !config.IsLoopback(host) {
		return fmt.Errorf("--listen: must be an address of this machine such as 127.0.0.1:5020, not %q", c.Listen)
	}
	if _, err := lab.ParseFault(c.Fault); err != nil {
		return fmt.Errorf("--fault: %w", err)
	}
	return nil
}

// Run serves a stand-in for a ModelHub until it is interrupted.
func (c *modelHubCmd) Run(ctx context.Context, io streams) error {
	services := lab.DemoServices()
	if c.Services != "" {
		var err error
		if services, err = readServices(c.Services); err != nil {
			return usageError{fmt.Errorf("--services: %w", err)}
		}
	}
	standIn := lab.NewModelHub(c.Token, services...)
	standIn.SetFault(lab.Fault(c.Fault))
	hub, err := startModelHub(ctx, c.Listen, standIn)
	if err != nil {
		return err
	}
	fmt.Fprintf(io.out, "%d services at %s\n", len(services), hub.url)
	<-ctx.Done()
	return hub.stop()
}

// readServices reads a list of services.
func readServices(file string) ([]health.HubService, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var list health.HubList
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if err := list.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return list.Services, nil
}

// runningModelHub is a stand-in that serves.
type runningModelHub struct {
	url  string       // of its list
	stop func() error // ends it, and returns why it could not serve
}

// startModelHub serves a stand-in.
func startModelHub(ctx context.Context, address string, standIn *lab.ModelHub) (*runningModelHub, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", address, err)
	}
	srv := &http.Server{Handler: standIn, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	return &runningModelHub{url: "http://" + l.Addr().String() + lab.ServicesPath, stop: func() error {
		_ = srv.Close() // its error only reports the connections that it cut
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}}, nil
}
