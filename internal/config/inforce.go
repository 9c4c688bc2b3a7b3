package config

import (
	"slices"
	"time"
)

// InForce is the configuration that is in force. It does not change: a reload replaces it.
type InForce struct {
	Config Config
	File   string    // that it was loaded from; empty: none
	Loaded time.Time // for the last time
	// NeedsRestart are the keys that differ in what was loaded last, and that only a restart puts in force.
	NeedsRestart []string

	reloadable []string // keys that a reload puts in force
}

// Reloadable reports whether a reload puts a key in force.
func (f *InForce) Reloadable(key string) bool { return slices.Contains(f.reloadable, key) }

// InForce returns the configuration that is in force: that of the start, with what reloads have changed.
func (r *Reloader) InForce() *InForce { return r.inForce.Load() }

// SetFile sets the name of the file that the configuration is loaded from.
func (r *Reloader) SetFile(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.update(func(f *InForce) { f.File = name })
}

// update replaces what is in force by a changed copy. The caller holds mu.
func (r *Reloader) update(change func(f *InForce)) {
	next := *r.inForce.Load()
	change(&next)
	r.inForce.Store(&next)
}
