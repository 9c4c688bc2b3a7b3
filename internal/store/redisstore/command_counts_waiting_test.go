//go:build !race

package redisstore_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
	"github.com/lingua-scheduler/lingua/test/redistest"
)

// fillClasses adds a waiter of each tenant to each of so many classes, whose names it returns. The clock of the store is stopped at now.
func fillClasses(t *testing.T, s *redisstore.Store, pool core.PoolID, now int64, classes int, tenants ...string) []string {
	t.Helper()
	var names []string
	var waiters sync.WaitGroup
	for i := range classes {
		class := fmt.Sprintf("x%03d", i)
		names = append(names, class)
		waiters.Go(func() {
			for _, tenant := range tenants {
				w := fairqueue.Waiter{ID: class + tenant, Class: class, Tenant: tenant, Instance: "i-1", Since: now, Deadline: now + 60_000}
				r, err := s.Enqueue(t.Context(), pool, fairqueue.EnqueueParams{Waiter: w, Weight: 1, MaxWaiting: 10_000})
				if err != nil || r.Verdict != fairqueue.Queued {
					t.Errorf("enqueue: %+v, %v", r, err)
				}
			}
		})
	}
	waiters.Wait()
	return names
}

// TestCommandsOfOffers limits how many commands Redis runs for one call, during which it does nothing else, with many classes: to offer slots, and to take
// the offers back.
func TestCommandsOfOffers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.URL())
	s.UseClock("clock")
	now := int64(1_700_000_000_000)
	setClock := func() {
		t.Helper()
		if _, err := server.Do("SET", "clock", fmt.Sprint(now)); err != nil {
			t.Fatal(err)
		}
	}
	setClock()
	count := func(call func() error) (total int64, by map[string]int64) {
		t.Helper()
		by = countCommands(t, server, call)
		for _, n := range by {
			total += n
		}
		return total, by
	}
	for i, c := range []struct{ classes, slots, offer, takeBack int }{{32, 32, 400, 200}, {128, 1, 250, 50}, {128, 8, 300, 80}, {512, 1, 650, 50}, {512, 2, 700, 60}} {
		pool := core.PoolID(fmt.Sprint("p", i))
		classes := fillClasses(t, s, pool, now, c.classes, "a", "b")
		if _, err := s.Offer(t.Context(), pool, 0, classes); err != nil { // the script is loaded
			t.Fatal(err)
		}
		got, by := count(func() error {
			r, err := s.Offer(t.Context(), pool, c.slots, classes)
			if err == nil && len(r.Offers) != c.slots {
				return fmt.Errorf("%d offers, want %d", len(r.Offers), c.slots)
			}
			return err
		})
		if got >= int64(c.offer) {
			t.Errorf("%d slots for %d classes: %d commands, want fewer than %d: %v", c.slots, c.classes, got, c.offer, by)
		}
		now += fairqueue.OfferMS
		setClock()
		got, by = count(func() error {
			_, err := s.Beat(t.Context(), pool, "i-1")
			return err
		})
		if got >= int64(c.takeBack) {
			t.Errorf("%d offers for %d classes are taken back: %d commands, want fewer than %d: %v", c.slots, c.classes, got, c.takeBack, by)
		}
	}
}
