package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/caarlos0/env/v11"
)

// EnvPrefix begins the name of every environment variable that is read.
const EnvPrefix = "LINGUA_"

// clientVariables begin like ours and are read by the commands that call a scheduler.
var clientVariables = []string{EnvPrefix + "URL", EnvPrefix + "TOKEN", EnvPrefix + "CA"}

// applyEnvironment sets the keys that variables name. An unknown variable with our prefix is an error: it is misspelled and
// would have no effect.
func (u *Unvalidated) applyEnvironment(environ []string) {
	known := listSettings(&u.Config)
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, EnvPrefix) || slices.Contains(clientVariables, name) {
			continue
		}
		i := slices.IndexFunc(known, func(s setting) bool { return s.env == name })
		switch {
		case i < 0 && u.warnUnusedVariable(name):
			continue
		case i < 0:
			u.problems = append(u.problems, fmt.Errorf("%s: there is no such variable; lingua config reference lists all variables", name))
			continue
		case value == "":
			continue // a shell or a compose file left it empty: it is not set
		}
		u.RecordSource(name, known[i].key)
		// One variable at a time: the library's errors name the field, not the variable.
		err := env.ParseWithOptions(&u.Config, env.Options{Prefix: EnvPrefix, Environment: map[string]string{name: value}})
		delete(u.invalid, known[i].key) // the value in the file is overridden
		if err != nil {
			u.rejectValue(known[i].key, describeValue(name, value)+" is "+describeParseError(err, describeType(known[i].field.Type())))
		}
	}
}

// warnUnusedVariable records a warning if a variable is for a key that has no effect, and reports whether it is.
func (u *Unvalidated) warnUnusedVariable(name string) bool {
	for key := range unusedKeys {
		if name == EnvPrefix+strings.ToUpper(strings.ReplaceAll(key, ".", "_")) {
			return u.warnUnused(key, name)
		}
	}
	return false
}

// describeParseError describes why the text of a variable was rejected, without the texts of the libraries.
func describeParseError(err error, want string) string {
	var parseErr env.ParseError
	if errors.As(err, &parseErr) && errors.Is(parseErr.Err, strconv.ErrRange) {
		return "out of range"
	}
	return "not " + want
}

// setting is one key of a configuration.
type setting struct {
	key   string // as in the file
	env   string // its environment variable
	doc   string
	field reflect.Value
}

// listSettings lists every setting. It uses reflection, so that one that is added later is read and tested like the others.
func listSettings(c *Config) []setting {
	var all []setting
	var visit func(v reflect.Value, table, env string)
	visit = func(v reflect.Value, table, env string) {
		for i := range v.NumField() {
			f := v.Type().Field(i)
			key := table + f.Tag.Get("toml")
			if f.Type.Kind() == reflect.Struct {
				visit(v.Field(i), key+".", env+f.Tag.Get("envPrefix"))
				continue
			}
			if isTableList(f.Type) {
				continue // a table of a list has no variable
			}
			all = append(all, setting{key: key, env: env + f.Tag.Get("env"), doc: f.Tag.Get("doc"), field: v.Field(i)})
		}
	}
	visit(reflect.ValueOf(c).Elem(), "", EnvPrefix)
	return all
}
