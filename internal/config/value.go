package config

import (
	"fmt"
	"reflect"
	"regexp"
)

// kindOf says what a setting's value has to be, in the words of somebody who writes one.
func kindOf(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[Millis]():
		return "a whole number of milliseconds"
	case reflect.TypeFor[Seconds]():
		return "a whole number of seconds"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a text in quotes"
	case reflect.Slice:
		return `a list such as ["a", "b"]`
	case reflect.Float64:
		return "a number"
	}
	return "a whole number"
}

var secretName = regexp.MustCompile(`(?i)token|password|secret|key`)

// shown writes a value that is refused, unless it may be a secret: refusals end up in logs and in tickets.
func shown(name string, value any) string {
	if secretName.MatchString(name) {
		return "the value"
	}
	switch v := value.(type) {
	case string:
		return fmt.Sprintf("%q", v)
	case bool, int64, float64:
		return fmt.Sprint(v)
	case []any:
		return "a list"
	case map[string]any:
		return "a table"
	}
	return "a date or time"
}
