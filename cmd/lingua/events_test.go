package main

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// TestEvents lists events as a table, as JSON, and follows new ones.
func TestEvents(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.registerNode(t, "n1", 2)
	registered := regexp.MustCompile(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}  node_registered +n1 +new  \(by \S+\)\n$`)
	deadline := time.Now().Add(20 * time.Second)
	for {
		got := runCommandEnv(t.Context(), nil, "events", "--server", s.url, "--kind", "node_registered")
		if got.code == exitOK && registered.MatchString(got.out) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("exit %d\n%s%s", got.code, got.out, got.err)
		}
	}
	got := runCommandEnv(t.Context(), nil, "events", "--server", s.url, "--kind", "node_registered", "--json")
	var list wire.EventList
	if err := json.Unmarshal([]byte(got.out), &list); err != nil || len(list.Events) != 1 {
		t.Fatalf("%v\n%s%s", err, got.out, got.err)
	}
	if got := runCommandEnv(t.Context(), nil, "events", "--server", s.url, "--node", "n9"); got.code != exitOK || got.out != "no events\n" {
		t.Errorf("exit %d\n%s%s", got.code, got.out, got.err)
	}
	if got := runCommandEnv(t.Context(), nil, "events", "--server", s.url, "--kind", "party"); got.code == exitOK || !strings.Contains(got.err, "node_lost") {
		t.Errorf("exit %d\n%s%s", got.code, got.out, got.err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &watchedOutput{until: regexp.MustCompile(`"kind":"node_drained"`), seen: cancel}
	code := make(chan int, 1)
	go func() {
		args := []string{"events", "--server", s.url, "--follow", "--json", "--after", list.Next}
		code <- execute(ctx, args, streams{out: out, err: out, environ: []string{}})
	}()
	if got := runCommandEnv(t.Context(), nil, "drain", "n1", "--server", s.url); got.code != exitOK {
		t.Fatalf("exit %d\n%s%s", got.code, got.out, got.err)
	}
	if c := <-code; c != exitOK || strings.Count(out.text(), "\n") != 1 {
		t.Errorf("exit %d\n%s", c, out.text())
	}
}
