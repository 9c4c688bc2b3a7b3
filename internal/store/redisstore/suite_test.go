package redisstore_test

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/test/storetest"
)

// TestMain runs many tests in parallel, because most of them mostly wait, and fewer random checks than package rapid does unless a flag
// says how many, because Redis runs each of their calls. A process that TestStressWithKilledSchedulers started runs no tests.
func TestMain(m *testing.M) {
	if config := os.Getenv(stressProcessEnv); config != "" {
		runScheduler(config)
		return
	}
	err := flag.Set("rapid.checks", "30")
	flag.Parse()
	if err := errors.Join(err, flag.Set("test.parallel", parallelTests)); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(redistest.TopologyTimer), goleak.IgnoreAnyFunction(redistest.RemovedConnections))
}

// timing is as short as a real clock allows, because the suite really waits: nothing may expire while a busy machine stalls.
var timing = store.Timing{
	Presence: 3 * time.Second, ReservedTTL: 1500 * time.Millisecond, Attempt: 6 * time.Second, Job: 12 * time.Second, Retention: 7500 * time.Millisecond,
}

// callTimeout is the limit of calls in tests of something else than it: longer than a busy machine stalls.
const callTimeout = 20 * time.Second

var prefixes atomic.Int64

// errOf drops the result of a call.
func errOf[T any](_ T, err error) error { return err }

// open opens a store with a prefix of its own.
func open(t testing.TB, url string, change ...func(*redisstore.Options)) *redisstore.Store {
	t.Helper()
	address, err := redisstore.ParseAddress(url)
	if err != nil {
		t.Fatal(err)
	}
	o := redisstore.Options{
		Address: address, Prefix: fmt.Sprintf("test%d", prefixes.Add(1)), Timing: timing, Timeout: callTimeout,
		Log: slog.New(slog.DiscardHandler),
	}
	for _, c := range change {
		c(&o)
	}
	s, err := redisstore.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// backend runs tests of the suite with a store at a URL.
func backend(url string, repeats bool) storetest.Backend {
	return func(t *testing.T, fn func(t *testing.T, h *storetest.Harness)) {
		s := open(t, url)
		h := &storetest.Harness{
			Store: s, Timing: timing, Repeats: repeats, Flush: s.WaitForReleases,
			StopQueueClock: s.StopQueueClock,
			Wait:           time.Sleep, Slack: 300 * time.Millisecond, Workers: 6, Rounds: 4,
		}
		if repeats {
			h.Store = storetest.NewRepeatingStore(s)
		}
		fn(t, h)
	}
}
