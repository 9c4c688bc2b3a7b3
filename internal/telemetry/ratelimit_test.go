package telemetry

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestRepeatedWarningsAreDropped checks that warnings and errors above the limit are dropped and counted by message, and
// that other records are not.
func TestRepeatedWarningsAreDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log, err := Logger(&out, "info", "text")
		if err != nil {
			t.Fatal(err)
		}
		lines := func(text string) int { return strings.Count(out.String(), text) }
		for i := range 3 * maxPerSecond {
			log.Warn("store unavailable", "caller", i)
			log.With("listener", "http").Error("request failed") // counted by message, whatever the attributes
			log.Info("node registered")
		}
		log.Warn("another warning")
		if w, e, i := lines("store unavailable"), lines("request failed"), lines("node registered"); w != maxPerSecond || e != maxPerSecond || i != 3*maxPerSecond {
			t.Errorf("%d warnings, %d errors, %d others", w, e, i)
		}
		if lines("another warning") != 1 || lines("omitted") != 0 {
			t.Errorf("%s", out.String())
		}
		time.Sleep(time.Second)
		out.Reset()
		log.Warn("store unavailable")
		log.Warn("store unavailable")
		if lines("omitted=40") != 1 || lines("store unavailable") != 2 {
			t.Errorf("%s", out.String())
		}
	})
}

// TestMessageLimiterIsBounded checks that the limiter does not keep every message forever.
func TestMessageLimiterIsBounded(t *testing.T) {
	t.Parallel()
	l := newMessageLimiter()
	now := time.Now()
	for i := range 3 * maxMessages {
		if _, ok := l.allow(strings.Repeat("x", i), now); !ok {
			t.Fatalf("message %d was dropped", i)
		}
	}
	if len(l.counts) > maxMessages {
		t.Errorf("%d messages are kept", len(l.counts))
	}
}
