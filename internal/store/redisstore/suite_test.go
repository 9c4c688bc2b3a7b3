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

// TestMain lets many tests wait at once: that is what most of them do most of the time. A process that TestCrowd
// started runs no tests.
func TestMain(m *testing.M) {
	if orders := os.Getenv(crowdOrders); orders != "" {
		runScheduler(orders)
		return
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "32"); err != nil {
		panic(err)
	}
	// A cluster's client that was just closed may still be about to look at the topology, for a second.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
}

// timing is as short as a real clock allows: what the suite waits for, it waits for in earnest.
var timing = store.Timing{
	Presence: 2 * time.Second, ReservedTTL: time.Second, Attempt: 4 * time.Second, Job: 8 * time.Second, Retention: 5 * time.Second,
}

var prefixes atomic.Int64

// open opens a store of its own on a server that others may use too.
func open(t testing.TB, url string, change ...func(*redisstore.Options)) *redisstore.Store {
	t.Helper()
	address, err := redisstore.ParseAddress(url)
	if err != nil {
		t.Fatal(err)
	}
	o := redisstore.Options{
		Address: address, Prefix: fmt.Sprintf("test%d", prefixes.Add(1)), Timing: timing, Timeout: 2 * time.Second,
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

func suite(url string, repeats bool) storetest.Backend {
	return func(t *testing.T, fn func(t *testing.T, h *storetest.Harness)) {
		s := open(t, url)
		h := &storetest.Harness{
			Store: s, Timing: timing, Repeats: repeats, Flush: s.Quiesce,
			Wait: time.Sleep, Slack: 300 * time.Millisecond, Workers: 8, Rounds: 20,
		}
		if repeats {
			h.Store = storetest.RepeatingStore{Store: s}
		}
		fn(t, h)
	}
}

func TestStandalone(t *testing.T) {
	t.Parallel()
	storetest.Exercise(t, suite(redistest.Start(t).URL(), false))
}

func TestStandaloneWithEveryReplyLostOnce(t *testing.T) {
	t.Parallel()
	storetest.Exercise(t, suite(redistest.Start(t).URL(), true))
}

func TestSentinel(t *testing.T) {
	t.Parallel()
	storetest.Exercise(t, suite(redistest.StartSentinel(t).URL(), false))
}

func TestCluster(t *testing.T) {
	t.Parallel()
	storetest.Exercise(t, suite(redistest.StartCluster(t).URL(), false))
}
