package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
)

// Draft is a configuration that is being put together. It goes on after a mistake, so that all of them are
// said at once, and remembers who set each key, so that each is said to the one who can mend it.
type Unvalidated struct {
	Config Config

	setBy    map[string]string // by key: what it is called where it was set
	broken   map[string]bool   // keys that were given what they cannot be, and kept what they had
	unread   bool              // what the file says is not known at all
	text     []byte            // of the file
	where    map[string]place  // by key: where the file names it
	fromFile map[string]bool   // keys that have what the file says
	problems []error
}

// Load begins a configuration: the defaults, then the file if one is named, then the environment. It is not
// judged yet: flags may still change it.
func Load(file string, environ []string) *Unvalidated {
	d := newDraft()
	if file != "" {
		body, err := os.ReadFile(file)
		if err != nil {
			d.unread = true
			d.problems = append(d.problems, fmt.Errorf("cannot read the config file: %w", err))
		} else {
			d.decode(file, body)
		}
	}
	d.environment(environ)
	return d
}

func newDraft() *Unvalidated {
	return &Unvalidated{Config: Default(), setBy: make(map[string]string), broken: make(map[string]bool), fromFile: make(map[string]bool)}
}

// SetBy notes that a flag or a variable has changed these keys.
func (d *Unvalidated) RecordSource(flag string, keys ...string) {
	for _, key := range keys {
		d.setBy[key] = flag
		delete(d.fromFile, key)
	}
}

// Finish judges the whole and returns it, or everything that is wrong with it.
func (d *Unvalidated) Validate() (Config, error) {
	problems := slices.Clone(d.problems)
	if !d.unread {
		for _, p := range d.Config.judge() {
			// A key that could not be read still has its default, which nobody wrote: it is no measure.
			if d.broken[p.key] || slices.ContainsFunc(p.with, func(key string) bool { return d.broken[key] }) {
				continue
			}
			excerpt := d.excerpt(p.key)
			if name, ok := d.setBy[p.key]; ok {
				p.key = name
			}
			problems = append(problems, errors.New(p.String()+excerpt))
		}
	}
	return d.Config, errors.Join(problems...)
}

// misfit notes that a key was given what it cannot be.
func (d *Unvalidated) misfit(key, text string) {
	d.broken[key] = true
	d.problems = append(d.problems, errors.New(d.setBy[key]+": "+text+d.excerpt(key)))
}

// excerpt shows the line of the file that set a key, unless something else did or it may hold a secret.
func (d *Unvalidated) excerpt(key string) string {
	at, known := d.where[key]
	if !known || !d.fromFile[key] {
		return ""
	}
	return at.excerpt(d.text)
}
