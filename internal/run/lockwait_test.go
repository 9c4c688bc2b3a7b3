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
	var mutex Mutex[Session]
	var rw RWMutex[Session]
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
			if diff := cmp.Diff([]wait{{"session", time.Millisecond}}, waits(), cmp.AllowUnexported(wait{})); diff != "" {
				t.Errorf("waits (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFreeLocksAreNotReported checks that a lock that is free reports nothing.
func TestFreeLocksAreNotReported(t *testing.T) { //nolint:paralleltest // the observers are those of the process
	waits, readers := record(t), 0
	var mutex Mutex[Session]
	var rw RWMutex[Session]
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
	report[Session](time.Now())
	stopFirst()
	report[Session](time.Now())
	stopFirst()
	stopSecond()
	report[Session](time.Now())
	if first != 1 || second != 2 {
		t.Errorf("the observers were told %d and %d times, want 1 and 2", first, second)
	}
}

// TestNamesAreUnique checks that no two locks have the same name.
func TestNamesAreUnique(t *testing.T) {
	t.Parallel()
	names := LockNames()
	slices.Sort(names)
	if unique := slices.Compact(slices.Clone(names)); len(unique) != len(names) {
		t.Errorf("a name occurs twice in %v", names)
	}
}

// TestLocksHaveTheSizeOfSync checks that the name takes no memory: there is a lock for each job, node and session.
func TestLocksHaveTheSizeOfSync(t *testing.T) {
	t.Parallel()
	if got, want := unsafe.Sizeof(Mutex[Session]{}), unsafe.Sizeof(sync.Mutex{}); got != want {
		t.Errorf("a Mutex has %d bytes, want %d", got, want)
	}
	if got, want := unsafe.Sizeof(RWMutex[Session]{}), unsafe.Sizeof(sync.RWMutex{}); got != want {
		t.Errorf("an RWMutex has %d bytes, want %d", got, want)
	}
}

// TestManyGoroutines checks mutual exclusion under contention, while observers come and go.
func TestManyGoroutines(t *testing.T) { //nolint:paralleltest // the observers are those of the process
	var mutex Mutex[Session]
	var rw RWMutex[SocketHub]
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
			var m Mutex[Session]
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
			var m RWMutex[Session]
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
	b.Run("lockwait", func(b *testing.B) { contend(b, &Mutex[Session]{}) })
	b.Run("sync", func(b *testing.B) { contend(b, &sync.Mutex{}) })
}
