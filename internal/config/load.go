package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
)

// Unvalidated is a configuration that is loaded and not yet validated: flags may still change it. Loading continues after
// an error, so that all are reported at once, and records the source of each key, so that each error names it.
type Unvalidated struct {
	Config Config

	file       string              // the file, if one is named
	source     map[string]string   // by key: its name in the source that set it, such as a variable
	invalid    map[string]bool     // keys that were given a value of the wrong type and kept their former one
	unreadable bool                // the file could not be read or parsed
	text       []byte              // content of the file
	positions  map[string]position // by key: where the file has it
	fromFile   map[string]bool     // keys that have their value from the file
	problems   []error
	warnings   []string
}

// Load loads a configuration: the defaults, then the file if one is named, then the environment.
func Load(file string, environ []string) *Unvalidated {
	u := newUnvalidated()
	u.file = file
	if file != "" {
		body, err := os.ReadFile(file)
		if err != nil {
			u.unreadable = true
			u.problems = append(u.problems, fmt.Errorf("cannot read the config file: %w", err))
		} else {
			u.decode(file, body)
		}
	}
	u.applyEnvironment(environ)
	return u
}

func newUnvalidated() *Unvalidated {
	return &Unvalidated{Config: Default(), source: make(map[string]string), invalid: make(map[string]bool), fromFile: make(map[string]bool)}
}

// RecordSource records that a flag or a variable has changed these keys.
func (u *Unvalidated) RecordSource(name string, keys ...string) {
	for _, key := range keys {
		u.source[key] = name
		delete(u.fromFile, key)
	}
}

// Validate returns the configuration with warnings, or all errors in it. A warning is about a value that is not
// used as it is, about a default that depends on another key, or about a file that too many can read.
func (u *Unvalidated) Validate() (Config, []string, error) {
	problems, warnings := slices.Clone(u.problems), slices.Clone(u.warnings)
	for _, adjust := range []func() string{u.limitHeartbeatTTL, u.withoutTargets, u.warnAnonymous} {
		if w := adjust(); w != "" {
			warnings = append(warnings, w)
		}
	}
	warnings = append(warnings, u.warnFiles()...)
	if !u.unreadable {
		for _, p := range u.Config.validate() {
			// An invalid key still has its default, which was not meant: nothing is compared with it.
			if u.invalid[p.key] || slices.ContainsFunc(p.related, func(key string) bool { return u.invalid[key] }) {
				continue
			}
			excerpt := u.excerpt(p.key)
			p.key = u.sourceOf(p.key)
			problems = append(problems, errors.New(p.String()+excerpt))
		}
	}
	return u.Config, warnings, errors.Join(problems...)
}

// rejectValue records that a key was given a value that it cannot have.
func (u *Unvalidated) rejectValue(key, text string) {
	u.invalid[key] = true
	u.problems = append(u.problems, errors.New(u.source[key]+": "+text+u.excerpt(key)))
}

// excerpt returns the line of the file that set a key. It is empty if another source set the key, or if the line may hold
// a secret.
func (u *Unvalidated) excerpt(key string) string {
	at, known := u.positions[key]
	if !known || !u.fromFile[key] {
		return ""
	}
	return at.excerpt(u.text)
}
