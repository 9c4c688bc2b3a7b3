package redisstore_test

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lingua-scheduler/lingua/internal/redistest"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
	"github.com/lingua-scheduler/lingua/internal/store/storetest"
)

// TestMain runs many tests in parallel, because most of them mostly wait. A process that TestStressWithKilledSchedulers started runs no
// tests.
func TestMain(m *testing.M) {
	if config := os.Getenv(stressProcessEnv); config != "" {
		runScheduler(config)
		return
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "32"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(redistest.TopologyTimer))
}

// timing is as short as a real clock allows, because the suite really waits: nothing may expire while a busy machine stalls.
var timing = store.Timing{
	Presence: 3 * time.Second, ReservedTTL: 1500 * time.Millisecond, Attempt: 6 * time.Second, Job: 12 * time.Second, Retention: 7500 * time.Millisecond,
}

// callTimeout is the limit of calls in tests of something else than it: longer than a busy machine stalls.
const callTimeout = 20 * time.Second

var prefixes atomic.Int64

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
			Wait: time.Sleep, Slack: 300 * time.Millisecond, Workers: 8, Rounds: 12,
		}
		if repeats {
			h.Store = storetest.NewRepeatingStore(s)
		}
		fn(t, h)
	}
}

func TestStandalone(t *testing.T) {
	t.Parallel()
	storetest.Exercise(t, backend(redistest.Start(t).URL(), false))
}

func TestStandaloneWithEveryReplyLostOnce(t *testing.T) {
	t.Parallel()
	storetest.Exercise(t, backend(redistest.Start(t).URL(), true))
}

func TestSentinel(t *testing.T) {
	t.Parallel()
	storetest.Exercise(t, backend(redistest.StartSentinel(t).URL(), false))
}

func TestCluster(t *testing.T) {
	t.Parallel()
	storetest.Exercise(t, backend(redistest.StartCluster(t).URL(), false))
}
