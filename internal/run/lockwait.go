package run

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// now is the clock. Tests replace it.
var now = time.Now

// Mutex is a sync.Mutex whose contended waits are reported under its name. Make one with NewMutex; that of the zero value is Unnamed.
type Mutex struct {
	mu   sync.Mutex
	name *string // an element of names; nil: Unnamed
}

// NewMutex makes a mutex. Its name is the value of the label lock in metrics, and docs/locks.md lists it.
func NewMutex(name string) Mutex { return Mutex{name: register(name)} }

// Lock locks the mutex.
func (m *Mutex) Lock() {
	if !m.mu.TryLock() {
		m.wait()
	}
}

// wait locks a mutex that is held, and reports how long that took.
//
//go:noinline
func (m *Mutex) wait() {
	began := now()
	m.mu.Lock()
	report(m.name, began)
}

// TryLock locks the mutex if it is free, and reports whether it did.
func (m *Mutex) TryLock() bool { return m.mu.TryLock() }

// Unlock unlocks the mutex.
func (m *Mutex) Unlock() { m.mu.Unlock() }

// RWMutex is a sync.RWMutex whose contended waits, of readers and of writers, are reported under its name. Make one with NewRWMutex; that
// of the zero value is Unnamed.
type RWMutex struct {
	mu   sync.RWMutex
	name *string // an element of names; nil: Unnamed
}

// NewRWMutex makes a mutex like NewMutex.
func NewRWMutex(name string) RWMutex { return RWMutex{name: register(name)} }

// Lock locks the mutex for writing.
func (m *RWMutex) Lock() {
	if !m.mu.TryLock() {
		m.wait()
	}
}

//go:noinline
func (m *RWMutex) wait() {
	began := now()
	m.mu.Lock()
	report(m.name, began)
}

// TryLock locks the mutex for writing if it is free, and reports whether it did.
func (m *RWMutex) TryLock() bool { return m.mu.TryLock() }

// Unlock ends a lock for writing.
func (m *RWMutex) Unlock() { m.mu.Unlock() }

// RLock locks the mutex for reading.
func (m *RWMutex) RLock() {
	if !m.mu.TryRLock() {
		m.waitRead()
	}
}

//go:noinline
func (m *RWMutex) waitRead() {
	began := now()
	m.mu.RLock()
	report(m.name, began)
}

// RUnlock ends one lock for reading.
func (m *RWMutex) RUnlock() { m.mu.RUnlock() }

// Unnamed is the name under which the waits for locks are reported that have none.
const Unnamed = "unnamed"

// names are the names of the locks that this process has made so far. The map is replaced, never changed, because a lock is made for each
// job.
var names atomic.Pointer[map[string]*string]

// LockNames returns the names of the locks that this process has made so far.
func LockNames() []string {
	if known := names.Load(); known != nil {
		return slices.Sorted(maps.Keys(*known))
	}
	return nil
}

// register returns the element of names for a name.
func register(name string) *string {
	if known := names.Load(); known != nil {
		if element := (*known)[name]; element != nil {
			return element
		}
	}
	return add(name)
}

// add adds a name to names.
//
//go:noinline
func add(name string) *string {
	for {
		old := names.Load()
		all := make(map[string]*string)
		if old != nil {
			maps.Copy(all, *old)
		}
		if all[name] == nil {
			all[name] = &name
		}
		if names.CompareAndSwap(old, &all) {
			return all[name]
		}
	}
}

// Observer is called for each contended wait, while the lock is held: it must take no lock of this package and must not wait
// for anything.
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
func report(name *string, began time.Time) {
	all := observers.Load()
	if all == nil || len(*all) == 0 {
		return
	}
	waited := now().Sub(began)
	lock := Unnamed
	if name != nil {
		lock = *name
	}
	for _, o := range *all {
		(*o)(lock, waited)
	}
}
