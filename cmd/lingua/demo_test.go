package main

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestDemo ends by itself, has done something, and oversold nobody. It is not parallel: it looks for what it
// left behind.
func TestDemo(t *testing.T) {
	before := goleak.IgnoreCurrent()
	got := call(t, "demo", "--duration", "1500ms", "--listen", "127.0.0.1:0")
	if got.code != exitOK || got.err != "" {
		t.Fatalf("exit %d\n%s", got.code, got.err)
	}
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
	for _, word := range []string{"lingua demo", "utterances", "overhead", "p50", "p99", "(last 10 s)", "(whole run)", "slots", "retries", "sessions", "oslo", "hangs 1 in 10"} {
		if !strings.Contains(got.out, word) {
			t.Errorf("the summary does not show %q:\n%s", word, got.out)
		}
	}
	last := regexp.MustCompile(`(\d+) utterances translated, \d+ failed; no node was ever sent more jobs than its slots\n$`).FindStringSubmatch(got.out)
	if last == nil {
		t.Fatalf("no last line:\n%s", got.out)
	}
	if done, _ := strconv.Atoi(last[1]); done == 0 {
		t.Errorf("want some utterances translated: %s", last[0])
	}
}

// TestDemoInterrupted ends as well when somebody is tired of it.
func TestDemoInterrupted(t *testing.T) {
	before := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancel(context.Background())
	out := &firstWrite{written: make(chan struct{})}
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"demo", "--listen", "127.0.0.1:0", "--conversations", "5"}, streams{out: out, err: out})
	}()
	<-out.written
	cancel()
	select {
	case c := <-code:
		if c != exitOK {
			t.Errorf("exit %d", c)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it does not end")
	}
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
}

// TestDemoInterruptedAtOnce is no failure either: whoever presses Ctrl-C wants it to end.
func TestDemoInterruptedAtOnce(t *testing.T) {
	if got := callIn(stopped(), nil, "demo", "--listen", "127.0.0.1:0"); got.code != exitOK {
		t.Errorf("exit %d\n%s", got.code, got.err)
	}
}

// TestDemoHeedsTheEnvironment, as serve does, and what is said after --store before that.
func TestDemoHeedsTheEnvironment(t *testing.T) {
	t.Parallel()
	environ := []string{"LINGUA_STORE=elsewhere"}
	if got := callIn(stopped(), environ, "demo", "--listen", "127.0.0.1:0"); got.code != exitUsage || !strings.Contains(got.err, "LINGUA_STORE") {
		t.Errorf("exit %d, want it refused\n%s", got.code, got.err)
	}
	if got := callIn(stopped(), environ, "demo", "--listen", "127.0.0.1:0", "--store", "memory"); got.code != exitOK {
		t.Errorf("exit %d\n%s", got.code, got.err)
	}
}

// firstWrite tells when something is written for the first time.
type firstWrite struct {
	once    sync.Once
	written chan struct{}
}

func (w *firstWrite) Write(p []byte) (int, error) {
	w.once.Do(func() { close(w.written) })
	return len(p), nil
}
