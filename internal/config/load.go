package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
)

// Draft is a configuration that is being put together. It goes on after a mistake, so that all of them are
// said at once, and remembers who set each key, so that each is said to the one who can mend it.
type Draft struct {
	Config Config

	setBy    map[string]string // by key: what it is called where it was set
	broken   map[string]bool   // keys that were given what they cannot be, and kept what they had
	unread   bool              // what the file says is not known at all
	problems []error
}

// Load begins a configuration: the defaults, then the file if one is named, then the environment. It is not
// judged yet: flags may still change it.
func Load(file string, environ []string) *Draft {
	d := &Draft{Config: Default(), setBy: make(map[string]string), broken: make(map[string]bool)}
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

// SetBy notes that a flag has changed these keys.
func (d *Draft) SetBy(flag string, keys ...string) {
	for _, key := range keys {
		d.setBy[key] = flag
	}
}

// Finish judges the whole and returns it, or everything that is wrong with it.
func (d *Draft) Finish() (Config, error) {
	problems := slices.Clone(d.problems)
	if !d.unread {
		for _, p := range d.Config.judge() {
			// A key that could not be read still has its default, which nobody wrote: it is no measure.
			if d.broken[p.key] || slices.ContainsFunc(p.with, func(key string) bool { return d.broken[key] }) {
				continue
			}
			if name, ok := d.setBy[p.key]; ok {
				p.key = name
			}
			problems = append(problems, errors.New(p.String()))
		}
	}
	return d.Config, errors.Join(problems...)
}

// misfit notes that a key was given what it cannot be.
func (d *Draft) misfit(key, text string) {
	d.broken[key] = true
	d.problems = append(d.problems, errors.New(d.setBy[key]+": "+text))
}
