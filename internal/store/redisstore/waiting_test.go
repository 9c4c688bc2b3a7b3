package redisstore_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
	"github.com/lingua-scheduler/lingua/test/redistest"
)

// TestLostKeysOfAQueue deletes each of the keys of a queue, in which waiters are in the line and have offers. The queue begins anew, the next beat
// says so, and waiters that are added again are served.
func TestLostKeysOfAQueue(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	prefix := ""
	s := open(t, server.URL(), func(o *redisstore.Options) { prefix = o.Prefix })
	for i, key := range redisstore.QueueKeys(prefix, "") {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			pool := core.PoolID(fmt.Sprintf("p%d", i))
			clock, err := s.Clock(t.Context(), store.ClockKey{Pool: pool})
			if err != nil {
				t.Fatal(err)
			}
			now := clock.UnixMilli()
			params := fairqueue.EnqueueParams{
				Waiter: fairqueue.Waiter{ID: "job-1", Class: "x", Tenant: "a", Instance: "i-1", Since: now, Deadline: now + 60_000}, Weight: 1, MaxWaiting: 10, Requirements: "r",
			}
			other := params
			other.ID, other.Deadline = "job-2", params.Deadline+1
			enqueue := func(p fairqueue.EnqueueParams) {
				t.Helper()
				if r, err := s.Enqueue(t.Context(), pool, p); err != nil || r.Verdict != fairqueue.Queued {
					t.Fatalf("enqueue: %+v, %v", r, err)
				}
			}
			enqueue(params)
			enqueue(other)
			if _, err := s.Offer(t.Context(), pool, 1, []string{"x"}); err != nil {
				t.Fatal(err)
			}
			if n, err := server.Do("DEL", redisstore.QueueKeys(prefix, pool)[i]); err != nil || fmt.Sprint(n) != "1" {
				t.Fatalf("delete: %v, %v", n, err)
			}
			if r, err := s.Beat(t.Context(), pool, "i-1"); err != nil || r.Waiters != 0 {
				t.Fatalf("beat: %+v, %v; want no waiters", r, err)
			}
			enqueue(params)
			enqueue(other)
			if r, err := s.Offer(t.Context(), pool, 5, []string{"x"}); err != nil || len(r.Offers) != 2 {
				t.Errorf("offered %+v, %v; want both waiters", r, err)
			}
		})
	}
}

// TestNothingIsLeftOfAQueue: when its waiters are gone and what it remembers is forgotten, a queue has no keys.
func TestNothingIsLeftOfAQueue(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	prefix := ""
	s := open(t, server.URL(), func(o *redisstore.Options) { prefix = o.Prefix })
	s.UseClock("clock")
	at := func(ms int) {
		t.Helper()
		if _, err := server.Do("SET", "clock", fmt.Sprint(1_700_000_000_000+ms)); err != nil {
			t.Fatal(err)
		}
	}
	at(0)
	w := fairqueue.Waiter{ID: "job-1", Class: "x", Tenant: "a", Instance: "i-1", Since: 1_700_000_000_000, Deadline: 1_700_000_001_000}
	if _, err := s.Enqueue(t.Context(), "", fairqueue.EnqueueParams{Waiter: w, Weight: 1, MaxWaiting: 10}); err != nil {
		t.Fatal(err)
	}
	if err := s.Settle(t.Context(), "", w, fairqueue.Served); err != nil {
		t.Fatal(err)
	}
	at(fairqueue.ForgetClassMS)
	if _, err := s.Beat(t.Context(), "", "i-1"); err != nil {
		t.Fatal(err)
	}
	for _, key := range redisstore.QueueKeys(prefix, "") {
		if n, err := server.Do("EXISTS", key); err != nil || fmt.Sprint(n) != "0" {
			t.Errorf("%s exists: %v, %v", key, n, err)
		}
	}
}

// TestVirtualTimeTooHigh raises the virtual time of a queue, and that of a class, above the limit. The queue begins anew, the next beat says so, and a waiter
// that is added again is served.
func TestVirtualTimeTooHigh(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	prefix := ""
	s := open(t, server.URL(), func(o *redisstore.Options) { prefix = o.Prefix })
	for _, record := range []string{"p", "c|y"} {
		t.Run(record, func(t *testing.T) {
			t.Parallel()
			pool := core.PoolID(record[:1])
			clock, err := s.Clock(t.Context(), store.ClockKey{Pool: pool})
			if err != nil {
				t.Fatal(err)
			}
			now := clock.UnixMilli()
			add := func(class string, wait int64) {
				t.Helper()
				w := fairqueue.Waiter{ID: "job-" + class, Class: class, Tenant: "a", Instance: "i-1", Since: now, Deadline: now + wait}
				if r, err := s.Enqueue(t.Context(), pool, fairqueue.EnqueueParams{Waiter: w, Weight: 1, MaxWaiting: 10}); err != nil || r.Verdict != fairqueue.Queued {
					t.Fatalf("enqueue: %+v, %v", r, err)
				}
			}
			wantWaiters := func(want int) {
				t.Helper()
				if r, err := s.Beat(t.Context(), pool, "i-1"); err != nil || r.Waiters != want {
					t.Fatalf("beat: %+v, %v; want %d waiters", r, err, want)
				}
			}
			setVirtual := func(to int64) {
				t.Helper()
				book := redisstore.QueueKeys(prefix, pool)[3]
				text, err := server.Do("HGET", book, record)
				if err != nil {
					t.Fatal(err)
				}
				changed := binary.LittleEndian.AppendUint64(nil, math.Float64bits(float64(to))) // the first field of the record
				if _, err := server.Do("HSET", book, record, string(changed)+fmt.Sprint(text)[len(changed):]); err != nil {
					t.Fatal(err)
				}
			}
			add("x", 60_000)
			add("y", 50_000) // it is served first, in the turn that its tenant has in x
			setVirtual(fairqueue.MaxVirtual)
			wantWaiters(2)
			setVirtual(fairqueue.MaxVirtual + 1)
			if _, err := s.Offer(t.Context(), pool, 1, []string{"x", "y"}); err != nil { // the time of a class is looked at when a slot is granted
				t.Fatal(err)
			}
			wantWaiters(0)
			add("x", 60_000)
			wantWaiters(1)
			if r, err := s.Offer(t.Context(), pool, 1, []string{"x"}); err != nil || len(r.Offers) != 1 {
				t.Errorf("offered %+v, %v; want one waiter", r, err)
			}
		})
	}
}

// TestQueueOfAnotherVersion: a queue whose record has another format begins anew.
func TestQueueOfAnotherVersion(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	prefix := ""
	s := open(t, server.URL(), func(o *redisstore.Options) { prefix = o.Prefix })
	clock, err := s.Clock(t.Context(), store.ClockKey{Pool: ""})
	if err != nil {
		t.Fatal(err)
	}
	now := clock.UnixMilli()
	p := fairqueue.EnqueueParams{
		Waiter: fairqueue.Waiter{ID: "job-1", Class: "x", Tenant: "a", Instance: "i-1", Since: now, Deadline: now + 60_000}, Weight: 1, MaxWaiting: 10,
	}
	for range 2 {
		if r, err := s.Enqueue(t.Context(), "", p); err != nil || r.Verdict != fairqueue.Queued {
			t.Fatalf("enqueue: %+v, %v", r, err)
		}
		if r, err := s.Beat(t.Context(), "", "i-1"); err != nil || r.Waiters != 1 {
			t.Fatalf("beat: %+v, %v; want one waiter", r, err)
		}
		if _, err := server.Do("HSET", redisstore.QueueKeys(prefix, "")[3], "p", "0 1 1 1 1 1 2 1 0 0"); err != nil {
			t.Fatal(err)
		}
		if r, err := s.Beat(t.Context(), "", "i-1"); err != nil || r.Waiters != 0 {
			t.Fatalf("beat after the record was replaced: %+v, %v; want no waiters", r, err)
		}
	}
}
