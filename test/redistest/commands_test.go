package redistest

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestMonitorReportsCommands(t *testing.T) {
	t.Parallel()
	s := Start(t)
	ctx, stop := context.WithCancel(t.Context())
	commands, started, ended := make(chan Command, 16), make(chan struct{}), make(chan error)
	go func() { ended <- s.Monitor(ctx, func() { close(started) }, func(c Command) { commands <- c }) }()
	<-started
	const odd = "a \"b\"\n\\ \x00\xff é] \"c"
	before := time.Now().UnixMicro()
	s.mustDo("SET", "k", odd)
	const text = "return redis.call('GET', KEYS[1])"
	s.mustDo("EVAL", text, "1", "k")
	for _, want := range []Command{
		{Words: []string{"SET", "k", odd}},
		{Words: []string{"EVAL", text, "1", "k"}},
		{Script: true, Words: []string{"GET", "k"}},
	} {
		got := <-commands
		if got.At < before-1e6 || got.At > before+60e6 {
			t.Errorf("a command at %d, want about %d", got.At, before)
		}
		got.At = 0
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for _, line := range []string{"", "x", `+1.2 [0 lua] `, `+1.2 [0 lua] "`, `+1.2 [0 lua] GET`, `+now [0 lua] "GET"`} {
		if _, err := parseCommand(line); err == nil {
			t.Errorf("%q was parsed without an error", line)
		}
	}
}
