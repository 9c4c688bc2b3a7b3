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

// TestDemoForDuration checks that the demo ends after --duration, that utterances were translated, that no node was
// over-committed and that no goroutine leaks. It is not parallel because of the last.
func TestDemoForDuration(t *testing.T) {
	before := goleak.IgnoreCurrent()
	got := runCommand(t, "demo", "--duration", "1500ms", "--listen", "127.0.0.1:0")
	if got.code != exitOK || got.err != "" {
		t.Fatalf("exit %d\n%s", got.code, got.err)
	}
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
	for _, word := range []string{"lingua demo", "utterances", "overhead", "p50", "p99", "(last 10 s)", "(whole run)", "slots", "retries", "sessions", "oslo", "hangs 1 in 10"} {
		if !strings.Contains(got.out, word) {
			t.Errorf("the summary does not contain %q:\n%s", word, got.out)
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

// TestDemoInterrupted checks that the demo ends with 0 after an interrupt.
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
		t.Fatal("the demo did not end")
	}
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
}

// TestDemoInterruptedAtOnce checks that an interrupt before the demo has started is no failure either.
func TestDemoInterruptedAtOnce(t *testing.T) {
	if got := runCommandEnv(cancelledContext(), nil, "demo", "--listen", "127.0.0.1:0"); got.code != exitOK {
		t.Errorf("exit %d\n%s", got.code, got.err)
	}
}

// TestDemoStorePrecedence checks that LINGUA_STORE applies to the demo, and that --store wins over it.
func TestDemoStorePrecedence(t *testing.T) {
	t.Parallel()
	environ := []string{"LINGUA_STORE=elsewhere"}
	if got := runCommandEnv(cancelledContext(), environ, "demo", "--listen", "127.0.0.1:0"); got.code != exitUsage || !strings.Contains(got.err, "LINGUA_STORE") {
		t.Errorf("exit %d, want it refused\n%s", got.code, got.err)
	}
	if got := runCommandEnv(cancelledContext(), environ, "demo", "--listen", "127.0.0.1:0", "--store", "memory"); got.code != exitOK {
		t.Errorf("exit %d\n%s", got.code, got.err)
	}
}

// firstWrite is a writer that closes a channel at the first write.
type firstWrite struct {
	once    sync.Once
	written chan struct{}
}

func (w *firstWrite) Write(p []byte) (int, error) {
	w.once.Do(func() { close(w.written) })
	return len(p), nil
}
