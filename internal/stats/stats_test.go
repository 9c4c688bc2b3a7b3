package stats

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// wantAnswer decodes the answer of a reader.
func wantAnswer(t *testing.T, r *Reader) wire.Stats {
	t.Helper()
	head, rest, stale, e := r.Answer([]byte{})
	if e != nil {
		t.Fatal(e)
	}
	body := slices.Concat(head, rest)
	var s wire.Stats
	if err := json.Unmarshal(body, &s); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	if again, err := json.Marshal(&s); err != nil || !bytes.Equal(again, body) {
		t.Errorf("the answer is\n%s, want the encoding of what it says\n%s, %v", body, again, err)
	}
	if s.Stale != stale {
		t.Errorf("the answer says stale %v, and the reader %v", s.Stale, stale)
	}
	return s
}

// TestOneInstanceComputes: of three instances one computes the snapshot, from the counts of all, and all have it. After its death another
// one does within 10 seconds, and no job is lost or counted twice.
func TestOneInstanceComputes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore()
		ids := []core.InstanceID{"i-1", "i-2", "i-3"}
		var all []*fakeInstance
		stops := make(map[core.InstanceID]func())
		for _, id := range ids {
			in := newInstance(id, st, ids...)
			all = append(all, in)
			stops[id] = in.run()
			in.counter.JobEnded(endJob(enZH, core.StateDone, ""))
			in.counter.JobEnded(endJob(enZH, core.StateFailed, core.ReasonMaxRetry))
		}
		time.Sleep(12 * time.Second)
		first := wantAnswer(t, all[0].reader)
		for _, in := range all {
			s := wantAnswer(t, in.reader)
			if s.GeneratedBy != first.GeneratedBy || s.Stale || s.AgeMS > 6000 {
				t.Errorf("%s has a snapshot of %s, stale %v, %d ms old", in.id, s.GeneratedBy, s.Stale, s.AgeMS)
			}
			want := wire.StatsOutcomes{Total: 6, Outcomes: map[string]int64{"DONE": 3, "FAILED": 3}, Reasons: map[string]int64{"MAX_RETRY_EXCEEDED": 3}}
			if diff := cmp.Diff(want, s.Jobs.LastDay); diff != "" {
				t.Errorf("jobs (-want +got):\n%s", diff)
			}
			if s.Instances.DeadLetters != 3 {
				t.Errorf("%d dead letters, want the 3 that the leader knows of", s.Instances.DeadLetters)
			}
		}
		saved := st.saved.Load()
		time.Sleep(time.Minute)
		if n := st.saved.Load() - saved; n < 11 || n > 13 {
			t.Errorf("%d snapshots were saved in a minute, want one every 5 seconds", n)
		}

		// The leader dies without releasing its lock.
		var leader *fakeInstance
		for _, in := range all {
			if string(in.id) == first.GeneratedBy {
				leader = in
			} else {
				in.counter.JobEnded(endJob(enZH, core.StateDone, ""))
			}
		}
		st.holdLock(leader)
		stops[leader.id]()
		st.holdLock(nil)
		died := time.Now()
		var next wire.Stats
		for next.GeneratedBy == "" || next.GeneratedBy == first.GeneratedBy {
			if time.Since(died) > 10*time.Second {
				t.Fatal("no other instance computes the snapshot 10 seconds after the leader's death")
			}
			time.Sleep(100 * time.Millisecond)
			for _, in := range all {
				if in != leader {
					next = wantAnswer(t, in.reader)
				}
			}
		}
		if next.Fence <= first.Fence {
			t.Errorf("the fence went from %d to %d", first.Fence, next.Fence)
		}
		time.Sleep(10 * time.Second)
		for _, in := range all {
			if in != leader {
				if got := wantAnswer(t, in.reader).Jobs.LastDay.Total; got != 8 {
					t.Errorf("%s: %d jobs, want 8", in.id, got)
				}
				stops[in.id]()
			}
		}
	})
}

// TestStaleLeaderPublishesNothing: a leader that was suspended until another one led replaces neither its snapshot nor its history.
func TestStaleLeaderPublishesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore()
		suspended, successor := newInstance("i-1", st, "i-1", "i-2"), newInstance("i-2", st, "i-1", "i-2")
		resumed := make(chan struct{})
		peers := suspended.generator.Peers
		var calls atomic.Int64
		suspended.generator.Peers = func(ctx context.Context) ([]bus.Peer, error) {
			if calls.Add(1) == 2 {
				<-resumed
			}
			return peers(ctx)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			suspended.generator.Lead(t.Context(), 1)
		}()
		time.Sleep(6 * time.Second) // it has published one snapshot, and computes the second
		ctx, stop := context.WithCancel(t.Context())
		led := make(chan struct{})
		go func() {
			defer close(led)
			successor.generator.Lead(ctx, 2)
		}()
		time.Sleep(time.Second)
		before := st.saved.Load()
		close(resumed)
		<-ended // its fence was refused, so it leads no more
		snap, err := store.ReadValue(t.Context(), st, store.ValueQuery{Key: snapshotKey})
		var published wire.Stats
		err = errors.Join(err, json.Unmarshal(snap.Parts[store.BodyPart], &published))
		if err != nil || published.Fence != 2 || st.saved.Load() != before {
			t.Errorf("the snapshot has the fence %d, and %d were saved by the stale leader; %v", published.Fence, st.saved.Load()-before, err)
		}
		stop()
		<-led
	})
}

// TestLeaderStopsInTime: a leader that cannot renew its lock stops before another instance can get it.
func TestLeaderStopsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore()
		var leading atomic.Int64
		lead := func(ctx context.Context, _ int64) {
			if n := leading.Add(1); n != 1 {
				t.Errorf("%d instances lead", n)
			}
			<-ctx.Done()
			leading.Add(-1)
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		cut := &faultyStore{Store: st}
		for i, locks := range []store.Locks{cut, st} {
			l := &Leader{Locks: locks, Name: "task", Instance: core.InstanceID(fmt.Sprint("i-", i)), Log: discardLog}
			running.Go(func() { l.Run(ctx, lead) })
			synctest.Wait() // the first one leads
		}
		for range 20 {
			cut.down.Store(true)
			time.Sleep(10 * time.Second)
			if leading.Load() != 1 {
				t.Errorf("%d instances lead", leading.Load())
			}
			cut.down.Store(false)
			time.Sleep(3 * time.Second)
		}
		stop()
		running.Wait()
	})
}

// TestStatsWithoutSnapshot: requests that find no snapshot do not wait. However many there are, one snapshot is computed at a time, and
// one within 30 seconds.
func TestStatsWithoutSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newInstance("i-1", newStore(), "i-1")
		peers := in.generator.Peers
		var generations atomic.Int64
		var fails atomic.Bool
		fails.Store(true)
		in.generator.Peers = func(ctx context.Context) ([]bus.Peer, error) {
			generations.Add(1)
			if fails.Load() {
				return nil, errDown
			}
			return peers(ctx)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			in.reader.Run(ctx)
		}()
		began := time.Now()
		for range 900 { // 90 seconds
			for range 10 {
				if _, _, _, e := in.reader.Answer(nil); e == nil || e.Code != wire.StatsNotReady || e.RetryAfterMS == 0 {
					t.Fatalf("the answer is %v", e)
				}
			}
			if time.Since(began) > 85*time.Second {
				fails.Store(false)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if age := in.reader.Age(); age != time.Since(began) {
			t.Errorf("without a snapshot the age is %v, want the %v since the start", age, time.Since(began))
		}
		if n := generations.Load(); n != 3 {
			t.Errorf("%d snapshots were computed in 90 seconds, want one every 30", n)
		}
		for range 320 {
			_, _, _, _ = in.reader.Answer(nil)
			time.Sleep(100 * time.Millisecond)
		}
		if s := wantAnswer(t, in.reader); s.GeneratedBy != "i-1" || s.Fence != 0 || !s.Stale {
			t.Errorf("the snapshot of this instance: %+v", s)
		}
		stop()
		<-ended
	})
}

// TestSnapshotStaysWithoutStore: while the store does not answer, requests get the last snapshot, as a stale one.
func TestSnapshotStaysWithoutStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore()
		in := newInstance("i-1", st, "i-1")
		stop := in.run()
		time.Sleep(7 * time.Second)
		before := wantAnswer(t, in.reader)
		if before.Stale || !before.Store.Reachable {
			t.Errorf("before: %+v", before.StatsAge)
		}
		st.down.Store(true)
		time.Sleep(2 * time.Minute)
		during := wantAnswer(t, in.reader)
		if !during.Stale || during.Store.Reachable || during.AgeMS < 2*60*1000 || during.GeneratedMS < before.GeneratedMS {
			t.Errorf("during: %+v of %d", during.StatsAge, during.GeneratedMS)
		}
		if age := in.reader.Age(); age.Milliseconds() != during.AgeMS {
			t.Errorf("the age is %v, the snapshot says %d ms", age, during.AgeMS)
		}
		st.down.Store(false)
		time.Sleep(15 * time.Second)
		if after := wantAnswer(t, in.reader); after.Stale || !after.Store.Reachable || after.GeneratedMS <= during.GeneratedMS {
			t.Errorf("after: %+v", after.StatsAge)
		}
		stop()
	})
}

// TestObservationsAreBounded: if nobody counts them, a bounded number of observations is kept, and the others are counted as dropped.
func TestObservationsAreBounded(t *testing.T) {
	c := NewCounter("i-1", newStore(), 5*time.Second, discardLog)
	const jobs = 200_000
	for i := range jobs {
		job := endJob(enZH, core.StateDone, "")
		job.ID = core.JobID(fmt.Sprint("job-", i))
		c.JobEnded(job)
	}
	c.collect()
	counted := c.total.Outcomes["DONE"]
	if counted > queueShards*queueLimit || counted+c.Dropped() != jobs || c.Dropped() == 0 {
		t.Errorf("%d jobs: %d were counted and %d dropped", jobs, counted, c.Dropped())
	}
	c.JobEnded(endJob(enZH, core.StateDone, ""))
	c.collect()
	if c.total.Outcomes["DONE"] != counted+1 {
		t.Error("a job was not counted although the queue was empty")
	}
}

// TestObservationsOfManyGoroutines: every observation of concurrent goroutines is counted once.
func TestObservationsOfManyGoroutines(t *testing.T) {
	c := NewCounter("i-1", newStore(), 5*time.Second, discardLog)
	var writers sync.WaitGroup
	const each = 5000
	for range 8 {
		writers.Go(func() {
			for range each {
				c.JobEnded(endJob(enZH, core.StateDone, ""))
				c.RequestRefused(enZH, wire.NoCapableNode, 0)
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		writers.Wait()
		close(ended)
	}()
	for done := false; !done; {
		select {
		case <-ended:
			done = true
		default:
		}
		c.collect()
	}
	if got := c.total.Outcomes["DONE"] + c.total.Refused["en→zh"] + c.Dropped(); got != 8*each*2 {
		t.Errorf("%d observations, want %d", got, 8*each*2)
	}
}

// BenchmarkJobEnded measures what a job costs dispatch.
func BenchmarkJobEnded(b *testing.B) {
	c := NewCounter("i-1", newStore(), 5*time.Second, discardLog)
	job := endJob(enZH, core.StateDone, "")
	b.ReportAllocs()
	for i := range b.N {
		if c.JobEnded(job); i%queueLimit == 0 {
			c.collect()
		}
	}
}

// TestLastCountsOfEndedInstance: what an instance published when it ended is counted, although the instance is not listed any more.
func TestLastCountsOfEndedInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore()
		leader, leaving := newInstance("i-1", st, "i-1", "i-2"), newInstance("i-2", st, "i-1", "i-2")
		var left atomic.Bool
		both, one := leader.generator.Peers, newInstance("i-1", st, "i-1").generator.Peers
		leader.generator.Peers = func(ctx context.Context) ([]bus.Peer, error) {
			if left.Load() {
				return one(ctx)
			}
			return both(ctx)
		}
		stopLeader := leader.run()
		synctest.Wait() // it leads
		stopLeaving := leaving.run()
		time.Sleep(7 * time.Second)
		left.Store(true)
		leaving.counter.JobEnded(endJob(enZH, core.StateDone, ""))
		stopLeaving()
		time.Sleep(12 * time.Second)
		if got := wantAnswer(t, leader.reader).Jobs.LastDay.Total; got != 1 {
			t.Errorf("%d jobs, want 1", got)
		}
		stopLeader()
	})
}
