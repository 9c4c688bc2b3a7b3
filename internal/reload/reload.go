// Package reload reads the configuration of a running scheduler again and puts in force what can change without a restart. Each part
// that can registers a section; everything else that has changed is reported as waiting for a restart.
package reload

import (
	"errors"
	"log/slog"
	"slices"
	"sync"

	"github.com/lingua-scheduler/lingua/internal/config"
)

// Section is a part of the configuration that can change while the scheduler runs.
type Section struct {
	// Keys are the keys that the section puts in force, as in the file. A list of tables, such as auth.keys, is one key.
	Keys []string
	// Prepare checks a configuration and returns the change that it means. It is called at every reload, also when no key has changed:
	// the content of a file that a key names may have. It must not change anything itself.
	Prepare func(next *config.Config) (Change, error)
}

// Change is what a section would change.
type Change struct {
	Changed []string // a description of each change, for people; without secrets
	Apply   func()   // puts it in force; nil: there is nothing to do. It cannot fail.
}

// Result is what a reload did.
type Result struct {
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

// Source loads and validates the configuration, with warnings.
type Source func() (config.Config, []string, error)

// Reloader reloads the configuration.
type Reloader struct {
	start config.Config // with which the scheduler was started
	log   *slog.Logger

	mu       sync.Mutex // held while a configuration is put in force
	source   Source
	sections []Section
}

// New makes a reloader for a scheduler that was started with a configuration.
func New(start config.Config, log *slog.Logger) *Reloader { return &Reloader{start: start, log: log} }

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
}

// Reload loads the configuration and puts it in force: all sections, or none if one of them refuses it. It logs what it did.
func (r *Reloader) Reload() (Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	result, err := r.reload()
	if err != nil {
		r.log.Error("the configuration was not reloaded; everything is as it was", "error", err)
		return Result{}, err
	}
	for _, w := range result.Warnings {
		r.log.Warn("the configuration has a warning", "warning", w)
	}
	r.log.Info("the configuration was reloaded", "changed", result.Changed, "needs_restart", result.NeedsRestart)
	return result, nil
}

func (r *Reloader) reload() (Result, error) {
	if r.source == nil {
		return Result{}, ErrNoSource
	}
	next, warnings, err := r.source()
	if err != nil {
		return Result{}, &InvalidError{err}
	}
	result := Result{Changed: []string{}, NeedsRestart: []string{}, Warnings: warnings}
	var applied []func()
	var problems []error
	covered := make(map[string]bool)
	for _, s := range r.sections {
		for _, key := range s.Keys {
			covered[key] = true
		}
		change, err := s.Prepare(&next)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		result.Changed = append(result.Changed, change.Changed...)
		if change.Apply != nil {
			applied = append(applied, change.Apply)
		}
	}
	if problems != nil {
		return Result{}, &InvalidError{errors.Join(problems...)}
	}
	for _, apply := range applied {
		apply()
	}
	result.NeedsRestart = append(result.NeedsRestart, slices.DeleteFunc(config.Differences(&r.start, &next), func(key string) bool { return covered[key] })...)
	return result, nil
}
