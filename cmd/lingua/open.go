package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"syscall"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
)

// open makes a scheduler for a command and opens its port.
func open(ctx context.Context, cfg config.Config, log *slog.Logger, command string) (*scheduler.Scheduler, net.Listener, error) {
	s, err := scheduler.New(ctx, cfg, version(), log, nil)
	if err != nil {
		return nil, nil, err
	}
	l, err := s.Listen(ctx)
	if err != nil {
		_ = s.Store.Close()
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, nil, &takenError{address: cfg.Server.Address(), instead: beside(cfg.Server), command: command}
	}
	return s, l, err
}

// takenError says that somebody else listens, and what to type instead, to those who use make as well.
type takenError struct{ address, instead, command string }

func (e *takenError) Error() string {
	target := e.command
	if target == "serve" {
		target = "run" // what the Makefile calls it
	}
	return fmt.Sprintf("cannot listen on %s: another program does, perhaps another scheduler\n"+
		"Choose another address: lingua %s --listen %s\nor, with make: make %s ARGS=\"--listen %s\"",
		e.address, e.command, e.instead, target, e.instead)
}

// beside is an address like the server's with the next port.
func beside(s config.Server) string {
	if s.Port++; s.Port > 65535 {
		s.Port = 0 // a free one
	}
	return s.Address()
}

// reachable is an address at which this machine reaches a listener: one that listens on every interface names none.
func reachable(listening net.Addr) string {
	a, err := netip.ParseAddrPort(listening.String())
	if err != nil || !a.Addr().IsUnspecified() {
		return listening.String()
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(int(a.Port())))
}
