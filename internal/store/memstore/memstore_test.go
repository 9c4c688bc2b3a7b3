package memstore_test

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
	"github.com/lingua-scheduler/lingua/test/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var timing = store.Timing{
	Presence: 15 * time.Second, ReservedTTL: 5 * time.Second, Attempt: 30 * time.Second, Job: time.Minute, Retention: 40 * time.Second,
}

// syncBackend runs a test with a fresh store on the fake clock of synctest.
func syncBackend(wrap func(store.Store) store.Store, repeats bool) storetest.Backend {
	return func(t *testing.T, fn func(t *testing.T, h *storetest.Harness)) {
		synctest.Test(t, func(t *testing.T) {
			fn(t, &storetest.Harness{
				Store: wrap(memstore.New(timing)), Timing: timing, Repeats: repeats,
				Wait: time.Sleep, Slack: time.Nanosecond, Workers: 16, Rounds: 120,
			})
		})
	}
}

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Exercise(t, syncBackend(func(s store.Store) store.Store { return s }, false))
}

func TestStoreWithEveryReplyLostOnce(t *testing.T) {
	t.Parallel()
	storetest.Exercise(t, syncBackend(func(s store.Store) store.Store { return storetest.NewRepeatingStore(s) }, true))
}
