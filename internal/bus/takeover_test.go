package bus_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// TestLongTakeoverKeepsItsLock: to take over from an instance may take longer than a lock lasts. Nobody else begins with it
// meanwhile.
func TestLongTakeoverKeepsItsLock(t *testing.T) {
	play(t, func(p *post) {
		began := make(chan core.InstanceID, 100)
		p.takeOver = func(ctx context.Context, by core.InstanceID) error {
			began <- by
			select {
			case <-time.After(2 * time.Minute):
			case <-ctx.Done():
			}
			return ctx.Err()
		}
		a := p.start("a")
		p.start("b")
		p.start("c")
		a.die()
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if n := len(began); n != 1 {
			t.Errorf("begun %d times, want once", n)
		}
		all, err := p.Instances(t.Context())
		if err != nil || len(all) != 2 {
			t.Errorf("what a left is still there: %+v, %v", all, err)
		}
	})
}

// TestTakeoverEndsWithItsLock: whoever lost the lock leaves the work to the one who has it.
func TestTakeoverEndsWithItsLock(t *testing.T) {
	play(t, func(p *post) {
		ended := make(chan error, 100)
		p.takeOver = func(ctx context.Context, _ core.InstanceID) error {
			// The store forgets the lock, and somebody else takes it.
			lock := store.LockParams{Name: "takeover:a", Holder: "b", TTL: time.Hour}
			if err := p.Unlock(ctx, lock); err != nil {
				t.Error(err)
			}
			lock.Holder = "z"
			if held, err := p.Lock(ctx, lock); err != nil || !held.Held {
				t.Errorf("%+v, %v", held, err)
			}
			select {
			case <-ctx.Done():
				ended <- ctx.Err()
			case <-time.After(time.Minute):
				ended <- nil
			}
			return ctx.Err()
		}
		a := p.start("a")
		p.start("b")
		a.die()
		time.Sleep(2 * time.Minute)
		if err := <-ended; err == nil {
			t.Error("it went on without the lock")
		}
	})
}
