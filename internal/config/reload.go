package config

import (
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Section is a part of the configuration that can change while the scheduler runs.
type Section struct {
	// Keys are the keys that the section puts in force, as in the file. A list of tables, such as auth.keys, is one key.
	Keys []string
	// Prepare checks a configuration and returns the change that it means. It is called at every reload, also when no key has changed:
	// the content of a file that a key names may have. It must not change anything itself. An error is one of the configuration, unless it
	// is an UnavailableError.
	Prepare func(next *Config, r ReloadRequest) (SectionChange, error)
}

// ReloadRequest says what a reload does beside putting what has changed in force.
type ReloadRequest struct {
	// PublishPools publishes the pools of the configuration to all instances also if they have not changed since it was loaded.
	PublishPools bool
}

// SectionChange is what a section would change.
type SectionChange struct {
	Changed  []string // a description of each change, for people; without secrets
	Warnings []string
	Apply    func() // puts it in force; nil: there is nothing to do. It cannot fail.
}

// ReloadResult is what a reload did.
type ReloadResult struct {
	Changed      []string // what is in force from now on
	NeedsRestart []string // keys that differ from those of the start, and that only a restart puts in force
	Warnings     []string
}

// ErrNoSource says that the configuration of this scheduler was not loaded from anywhere.
var ErrNoSource = errors.New("this scheduler was started without a configuration that can be read again")

// InvalidError is a configuration that cannot be put in force. Nothing was changed.
type InvalidError struct{ Err error }

func (e *InvalidError) Error() string { return e.Err.Error() }

// Unwrap returns the errors of the configuration.
func (e *InvalidError) Unwrap() error { return e.Err }

// UnavailableError says that a section needs something that does not answer, such as the store. Nothing was changed.
type UnavailableError struct{ Err error }

func (e *UnavailableError) Error() string { return e.Err.Error() }

// Unwrap returns the error of what does not answer.
func (e *UnavailableError) Unwrap() error { return e.Err }

// Source loads and validates the configuration, with warnings.
type Source func() (Config, []string, error)

// Reloader reloads the configuration.
type Reloader struct {
	start Config // with which the scheduler was started
	log   *slog.Logger
	// inForce is read without mu, which a reload holds while it waits for the store.
	inForce atomic.Pointer[InForce]

	mu       sync.Mutex // held while a configuration is put in force
	source   Source
	sections []Section
}

// NewReloader makes a reloader for a scheduler that was started with a configuration.
func NewReloader(start Config, log *slog.Logger) *Reloader {
	r := &Reloader{start: start, log: log}
	r.inForce.Store(&InForce{Config: start, Loaded: time.Now()})
	return r
}

// SetSource sets where the configuration is loaded from.
func (r *Reloader) SetSource(source Source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.source = source
}

// Register adds a section.
func (r *Reloader) Register(s Section) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sections = append(r.sections, s)
	r.update(func(f *InForce) { f.reloadable = append(slices.Clone(f.reloadable), s.Keys...) })
}

// Reload loads the configuration and puts it in force: all sections, or none if one of them refuses it. It logs what it did.
func (r *Reloader) Reload(request ReloadRequest) (ReloadResult, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	result, err := r.reload(request)
	if err != nil {
		r.log.Error("the configuration was not reloaded; everything is as it was", "error", err)
		return ReloadResult{}, err
	}
	for _, w := range result.Warnings {
		r.log.Warn("the configuration has a warning", "warning", w)
	}
	r.log.Info("the configuration was reloaded", "changed", result.Changed, "needs_restart", result.NeedsRestart)
	return result, nil
}

func (r *Reloader) reload(request ReloadRequest) (ReloadResult, error) {
	if r.source == nil {
		return ReloadResult{}, ErrNoSource
	}
	next, warnings, err := r.source()
	if err != nil {
		return ReloadResult{}, &InvalidError{err}
	}
	result := ReloadResult{Changed: []string{}, NeedsRestart: []string{}, Warnings: warnings}
	var applied []func()
	var problems, unavailable []error
	covered := make(map[string]bool)
	for _, s := range r.sections {
		for _, key := range s.Keys {
			covered[key] = true
		}
		change, err := s.Prepare(&next, request)
		if e := (*UnavailableError)(nil); errors.As(err, &e) {
			unavailable = append(unavailable, err)
			continue
		}
		if err != nil {
			problems = append(problems, err)
			continue
		}
		result.Changed = append(result.Changed, change.Changed...)
		result.Warnings = append(result.Warnings, change.Warnings...)
		if change.Apply != nil {
			applied = append(applied, change.Apply)
		}
	}
	if problems != nil {
		return ReloadResult{}, &InvalidError{errors.Join(problems...)}
	}
	if unavailable != nil {
		return ReloadResult{}, errors.Join(unavailable...)
	}
	for _, apply := range applied {
		apply()
	}
	result.NeedsRestart = append(result.NeedsRestart,
		slices.DeleteFunc(Differences(&r.start, &next), func(key string) bool { return covered[key] })...)
	r.update(func(f *InForce) {
		Overwrite(&f.Config, &next, func(key string) bool { return covered[key] })
		f.Loaded, f.NeedsRestart = time.Now(), result.NeedsRestart
	})
	return result, nil
}
