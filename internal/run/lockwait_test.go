package run

import (
	"slices"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
)

// wait is one wait that was reported.
type wait struct {
	lock   string
	waited time.Duration
}

// record collects the waits of this process until the test ends.
func record(t *testing.T) func() []wait {
	t.Helper()
	var mu sync.Mutex
	var all []wait
	t.Cleanup(Observe(func(name string, waited time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, wait{name, waited})
	}))
	return func() []wait {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

// locker is a way to take and to leave a lock.
type locker struct {
	name         string
	lock, unlock func()
}

// fakeClock replaces the clock until the test ends. Each reading is a millisecond after the one before, and asked receives an element at the
// first, which is when a lock turns out to be held.
func fakeClock(t *testing.T) (asked <-chan struct{}) {
	t.Helper()
	readings, first := 0, make(chan struct{})
	now = func() time.Time {
		if readings++; readings == 1 {
			close(first)
		}
		return time.UnixMilli(int64(readings))
	}
	t.Cleanup(func() { now = time.Now })
	return first
}

// TestContendedWaitsAreReported checks every way to wait for a lock against every way to hold it.
func TestContendedWaitsAreReported(t *testing.T) { //nolint:tparallel // the observers and the clock are those of the process
	mutex := NewMutex("test_session")
	rw := NewRWMutex("test_session")
	exclusive := locker{"Mutex.Lock", mutex.Lock, mutex.Unlock}
	write := locker{"RWMutex.Lock", rw.Lock, rw.Unlock}
	read := locker{"RWMutex.RLock", rw.RLock, rw.RUnlock}
	for _, tc := range []struct{ held, wanted locker }{{exclusive, exclusive}, {write, write}, {write, read}, {read, write}} {
		t.Run(tc.held.name+" then "+tc.wanted.name, func(t *testing.T) {
			waits, asked := record(t), fakeClock(t)
			tc.held.lock()
			got := make(chan struct{})
			go func() {
				tc.wanted.lock()
				tc.wanted.unlock()
				close(got)
			}()
			<-asked
			tc.held.unlock()
			<-got
			if diff := cmp.Diff([]wait{{"test_session", time.Millisecond}}, waits(), cmp.AllowUnexported(wait{})); diff != "" {
				t.Errorf("waits (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFreeLocksAreNotReported checks that a lock that is free reports nothing.
func TestFreeLocksAreNotReported(t *testing.T) { //nolint:paralleltest // the observers are those of the process
	waits, readers := record(t), 0
	mutex := NewMutex("test_session")
	rw := NewRWMutex("test_session")
	for range 1000 {
		mutex.Lock()
		if mutex.TryLock() {
			t.Fatal("TryLock took a lock that is held")
		}
		mutex.Unlock()
		rw.Lock()
		if rw.TryLock() {
			t.Fatal("TryLock took a lock that is held")
		}
		rw.Unlock()
		rw.RLock()
		rw.RLock() // readers share it
		readers++
		rw.RUnlock()
		rw.RUnlock()
	}
	if all := waits(); len(all) != 0 || readers != 1000 {
		t.Errorf("reported %v, want nothing", all)
	}
}

// TestObserversComeAndGo checks that each observer is told until it is stopped, whatever the others do.
func TestObserversComeAndGo(t *testing.T) { //nolint:paralleltest // the observers are those of the process
	first, second := 0, 0
	stopFirst := Observe(func(string, time.Duration) { first++ })
	stopSecond := Observe(func(string, time.Duration) { second++ })
	report(nil, time.Now())
	stopFirst()
	report(nil, time.Now())
	stopFirst()
	stopSecond()
	report(nil, time.Now())
	if first != 1 || second != 2 {
		t.Errorf("the observers were told %d and %d times, want 1 and 2", first, second)
	}
}

// TestLockNames checks that a name is known once the first lock has it, and that a lock without one works too.
func TestLockNames(t *testing.T) { //nolint:paralleltest // the observers are those of the process
	if slices.Contains(LockNames(), "test_late") {
		t.Error("a name is known before a lock has it")
	}
	first, second := NewMutex("test_late"), NewRWMutex("test_late")
	if got := slices.DeleteFunc(LockNames(), func(name string) bool { return name != "test_late" }); len(got) != 1 {
		t.Errorf("the name of two locks is known as %v", got)
	}
	var unnamed Mutex
	unnamed.Lock()
	unnamed.Unlock() //nolint:staticcheck // that it can be locked is the point
	waits := record(t)
	report(first.name, time.Now())
	report(second.name, time.Now())
	report(unnamed.name, time.Now())
	var got []string
	for _, w := range waits() {
		got = append(got, w.lock)
	}
	if diff := cmp.Diff([]string{"test_late", "test_late", Unnamed}, got); diff != "" {
		t.Errorf("names of the waits (-want +got):\n%s", diff)
	}
}

// TestLocksAreSmall checks that a lock is a pointer larger than that of sync, and that making one with a known name allocates nothing: there
// is a lock for each job, node and session.
func TestLocksAreSmall(t *testing.T) { //nolint:paralleltest // it counts allocations
	if got, want := unsafe.Sizeof(Mutex{}), unsafe.Sizeof(sync.Mutex{})+unsafe.Sizeof(uintptr(0)); got != want {
		t.Errorf("a Mutex has %d bytes, want %d", got, want)
	}
	if got, want := unsafe.Sizeof(RWMutex{}), unsafe.Sizeof(sync.RWMutex{})+unsafe.Sizeof(uintptr(0)); got != want {
		t.Errorf("an RWMutex has %d bytes, want %d", got, want)
	}
	mutex := NewMutex("test_small")
	if n := testing.AllocsPerRun(100, func() { mutex = NewMutex("test_small") }); n != 0 {
		t.Errorf("making a lock allocates %v times", n)
	}
	mutex.Lock()
}

// TestManyGoroutines checks mutual exclusion under contention, while observers come and go.
func TestManyGoroutines(t *testing.T) { //nolint:paralleltest // the observers are those of the process
	mutex := NewMutex("test_session")
	rw := NewRWMutex("test_hub")
	counts := [2]int{}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 500 {
				stop := Observe(func(string, time.Duration) {})
				mutex.Lock()
				counts[0]++
				mutex.Unlock()
				rw.Lock()
				counts[1]++
				rw.Unlock()
				rw.RLock()
				_ = counts[1]
				rw.RUnlock()
				stop()
			}
		})
	}
	all.Wait()
	if counts != [2]int{4000, 4000} {
		t.Errorf("counted %v, want 4000 each", counts)
	}
}

func BenchmarkUncontended(b *testing.B) {
	b.Run("Mutex", func(b *testing.B) {
		b.Run("lockwait", func(b *testing.B) {
			m := NewMutex("test_session")
			b.ReportAllocs()
			for b.Loop() {
				m.Lock()
				m.Unlock() //nolint:staticcheck // the empty section is what is measured
			}
		})
		b.Run("sync", func(b *testing.B) {
			var m sync.Mutex
			b.ReportAllocs()
			for b.Loop() {
				m.Lock()
				m.Unlock() //nolint:staticcheck // the empty section is what is measured
			}
		})
	})
	b.Run("RLock", func(b *testing.B) {
		b.Run("lockwait", func(b *testing.B) {
			m := NewRWMutex("test_session")
			b.ReportAllocs()
			for b.Loop() {
				m.RLock()
				m.RUnlock() //nolint:staticcheck // the empty section is what is measured
			}
		})
		b.Run("sync", func(b *testing.B) {
			var m sync.RWMutex
			b.ReportAllocs()
			for b.Loop() {
				m.RLock()
				m.RUnlock() //nolint:staticcheck // the empty section is what is measured
			}
		})
	})
}

// BenchmarkContended measures a lock that two goroutines want all the time.
func BenchmarkContended(b *testing.B) {
	defer Observe(func(string, time.Duration) {})()
	contend := func(b *testing.B, l sync.Locker) {
		b.Helper()
		shared := 0
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				l.Lock()
				shared++
				l.Unlock()
			}
		})
	}
	b.Run("lockwait", func(b *testing.B) { contend(b, &Mutex{}) })
	b.Run("sync", func(b *testing.B) { contend(b, &sync.Mutex{}) })
}
