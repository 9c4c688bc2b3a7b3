package main

import (
	"context"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestDemoForDuration checks that the demo ends after --duration. TestMain checks that no goroutine leaks.
func TestDemoForDuration(t *testing.T) {
	t.Parallel()
	got := runCommand(t, "demo", "--duration", "1500ms", "--conversations", "12", "--listen", "127.0.0.1:0")
	if got.code != exitOK || got.err != "" {
		t.Fatalf("exit %d\n%s", got.code, got.err)
	}
	for _, word := range []string{"lingua demo", "utterances", "overhead", "p50", "p99", "(whole run)", "slots", "retries", "sessions", "oslo", "hangs 1 in 10"} {
		if !strings.Contains(got.out, word) {
			t.Errorf("the summary does not contain %q:\n%s", word, got.out)
		}
	}
	if !strings.HasSuffix(got.out, " failed; no node was ever sent more jobs than its slots\n") {
		t.Errorf("the last line:\n%s", got.out)
	}
}

// TestDemoInterrupted checks that the demo ends with 0 after an interrupt, that utterances were translated until then, and that no node was
// over-committed.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	out := &watchedOutput{until: regexp.MustCompile(`done [1-9]`), seen: cancel}
	code := make(chan int, 1)
	go func() {
		code <- execute(ctx, []string{"demo", "--conversations", "12", "--listen", "127.0.0.1:0"}, streams{out: out, err: out})
	}()
	select {
	case c := <-code:
		if c != exitOK {
			t.Errorf("exit %d", c)
		}
	case <-time.After(time.Minute):
		t.Fatalf("the demo has not translated anything, or did not end:\n%s", out.text())
	}
	if !regexp.MustCompile(`: [1-9]\d* utterances translated, \d+ failed; no node was ever sent more jobs than its slots\n$`).MatchString(out.text()) {
		t.Errorf("the last line:\n%s", out.text())
	}
}

// TestDemoInterruptedAtOnce checks that an interrupt before the demo has started is no failure either.
func TestDemoInterruptedAtOnce(t *testing.T) {
	t.Parallel()
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

// watchedOutput keeps what is written, and calls seen once it matches a pattern.
type watchedOutput struct {
	until *regexp.Regexp
	seen  func()

	mu      sync.Mutex
	written strings.Builder
}

func (w *watchedOutput) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.until.Match(p) {
		w.seen()
	}
	return w.written.Write(p)
}

func (w *watchedOutput) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.written.String()
}
