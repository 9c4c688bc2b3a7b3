package telemetry

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestTooManyAlike are left out of the log and counted; others, and what is no warning, are not.
func TestTooManyAlike(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log, err := Logger(&out, "info", "text")
		if err != nil {
			t.Fatal(err)
		}
		lines := func(text string) int { return strings.Count(out.String(), text) }
		for i := range 3 * mostAlike {
			log.Warn("the store is away", "caller", i)
			log.With("door", "http").Error("it broke") // of one kind, whoever says it
			log.Info("somebody came")
		}
		log.Warn("another thing")
		if w, e, i := lines("the store is away"), lines("it broke"), lines("somebody came"); w != mostAlike || e != mostAlike || i != 3*mostAlike {
			t.Errorf("%d warnings, %d errors, %d others", w, e, i)
		}
		if lines("another thing") != 1 || lines("omitted") != 0 {
			t.Errorf("%s", out.String())
		}
		time.Sleep(time.Second)
		out.Reset()
		log.Warn("the store is away")
		log.Warn("the store is away")
		if lines("omitted=40") != 1 || lines("the store is away") != 2 {
			t.Errorf("%s", out.String())
		}
	})
}

// TestManyKinds are not remembered for ever.
func TestManyKinds(t *testing.T) {
	t.Parallel()
	a := alike{counts: make(map[string]*count)}
	now := time.Now()
	for i := range 3 * mostKinds {
		if _, ok := a.take(strings.Repeat("x", i), now); !ok {
			t.Fatalf("%d was left out", i)
		}
	}
	if len(a.counts) > mostKinds {
		t.Errorf("%d kinds are remembered", len(a.counts))
	}
}
