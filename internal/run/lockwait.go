package run

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// now is the clock. Tests replace it.
var now = time.Now

// Mutex is a sync.Mutex whose contended waits are reported under the name N.
type Mutex[N LockName] struct{ mu sync.Mutex }

// Lock locks the mutex.
func (m *Mutex[N]) Lock() {
	if !m.mu.TryLock() {
		m.wait()
	}
}

// wait locks a mutex that is held, and reports how long that took.
//
//go:noinline
func (m *Mutex[N]) wait() {
	began := now()
	m.mu.Lock()
	report[N](began)
}

// TryLock locks the mutex if it is free, and reports whether it did.
func (m *Mutex[N]) TryLock() bool { return m.mu.TryLock() }

// Unlock unlocks the mutex.
func (m *Mutex[N]) Unlock() { m.mu.Unlock() }

// RWMutex is a sync.RWMutex whose contended waits, of readers and of writers, are reported under the name N.
type RWMutex[N LockName] struct{ mu sync.RWMutex }

// Lock locks the mutex for writing.
func (m *RWMutex[N]) Lock() {
	if !m.mu.TryLock() {
		m.wait()
	}
}

//go:noinline
func (m *RWMutex[N]) wait() {
	began := now()
	m.mu.Lock()
	report[N](began)
}

// TryLock locks the mutex for writing if it is free, and reports whether it did.
func (m *RWMutex[N]) TryLock() bool { return m.mu.TryLock() }

// Unlock ends a lock for writing.
func (m *RWMutex[N]) Unlock() { m.mu.Unlock() }

// RLock locks the mutex for reading.
func (m *RWMutex[N]) RLock() {
	if !m.mu.TryRLock() {
		m.waitRead()
	}
}

//go:noinline
func (m *RWMutex[N]) waitRead() {
	began := now()
	m.mu.RLock()
	report[N](began)
}

// RUnlock ends one lock for reading.
func (m *RWMutex[N]) RUnlock() { m.mu.RUnlock() }

// Observer is told of a contended wait. It is called while the lock is held: it must take no lock of this package and must not wait for
// anything.
type Observer func(lock string, waited time.Duration)

// observers are the observers of this process. The slice is replaced, never changed.
var observers atomic.Pointer[[]*Observer]

// Observe calls an observer with every contended wait in this process until stop is called.
func Observe(o Observer) (stop func()) {
	added := &o
	replace(func(all []*Observer) []*Observer { return append(all, added) })
	return func() {
		replace(func(all []*Observer) []*Observer {
			return slices.DeleteFunc(all, func(other *Observer) bool { return other == added })
		})
	}
}

// replace replaces the observers by a changed copy.
func replace(change func([]*Observer) []*Observer) {
	for {
		old := observers.Load()
		var all []*Observer
		if old != nil {
			all = slices.Clone(*old)
		}
		if all = change(all); observers.CompareAndSwap(old, &all) {
			return
		}
	}
}

// report tells the observers of a wait that is over.
func report[N LockName](began time.Time) {
	all := observers.Load()
	if all == nil || len(*all) == 0 {
		return
	}
	waited := now().Sub(began)
	var name N
	for _, o := range *all {
		(*o)(name.LockName(), waited)
	}
}
