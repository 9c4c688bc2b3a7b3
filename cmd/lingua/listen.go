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

// newListeningScheduler makes the scheduler of a command and opens its port.
func newListeningScheduler(ctx context.Context, cfg config.Config, log *slog.Logger, command string) (*scheduler.Scheduler, net.Listener,
	error) {
	s, err := scheduler.New(ctx, cfg, version(), log, nil)
	if err != nil {
		return nil, nil, err
	}
	l, err := s.Listen(ctx)
	if err != nil {
		_ = s.Store.Close()
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, nil, &addressInUseError{address: cfg.Server.Address(), alternative: nextPort(cfg.Server), command: command}
	}
	return s, l, err
}

// addressInUseError reports that another program listens on the address, and the command line to use instead.
type addressInUseError struct{ address, alternative, command string }

func (e *addressInUseError) Error() string {
	target := e.command
	if target == "serve" {
		target = "run" // the name of the target in the Makefile
	}
	return fmt.Sprintf("cannot listen on %s: another program does, perhaps another scheduler\n"+
		"Choose another address: lingua %s --listen %s\nor, with make: make %s ARGS=\"--listen %s\"",
		e.address, e.command, e.alternative, target, e.alternative)
}

// nextPort returns the address of the server with the next port.
func nextPort(s config.Server) string {
	if s.Port++; s.Port > 65535 {
		s.Port = 0 // a free one
	}
	return s.Address()
}

// reachableAddress returns an address at which this machine reaches a listener. A listener on every interface names none.
func reachableAddress(listening net.Addr) string {
	a, err := netip.ParseAddrPort(listening.String())
	if err != nil || !a.Addr().IsUnspecified() {
		return listening.String()
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(int(a.Port())))
}
