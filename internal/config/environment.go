package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/caarlos0/env/v11"
)

// EnvPrefix begins the name of every environment variable that is read.
const EnvPrefix = "LINGUA_"

// elsewhere are variables that begin like ours and are read by others: the commands that ask a scheduler.
var elsewhere = []string{EnvPrefix + "URL", EnvPrefix + "TOKEN"}

// environment lets variables win over what the draft holds. One that begins like ours and is not known is
// refused: it is a misspelling that would otherwise do nothing.
func (d *Unvalidated) environment(environ []string) {
	known := keys(&d.Config)
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, EnvPrefix) || slices.Contains(elsewhere, name) {
			continue
		}
		i := slices.IndexFunc(known, func(k key) bool { return k.Env == name })
		switch {
		case i < 0:
			d.problems = append(d.problems, fmt.Errorf("%s: there is no such variable; lingua config reference lists those there are", name))
			continue
		case value == "":
			continue // a shell or a compose file left it empty: it is not set
		}
		d.RecordSource(name, known[i].Name)
		// One at a time: the library's errors name the field, not the variable.
		err := env.ParseWithOptions(&d.Config, env.Options{Prefix: EnvPrefix, Environment: map[string]string{name: value}})
		delete(d.broken, known[i].Name) // whatever the file said does not count any more
		if err != nil {
			d.misfit(known[i].Name, shown(name, value)+" is "+misread(err, kindOf(known[i].At.Type())))
		}
	}
}

// misread says why a variable's text could not be taken, without the words of the libraries.
func misread(err error, want string) string {
	var wrong env.ParseError
	if errors.As(err, &wrong) && errors.Is(wrong.Err, strconv.ErrRange) {
		return "out of range"
	}
	return "not " + want
}
