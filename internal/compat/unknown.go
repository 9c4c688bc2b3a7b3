package compat

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// maxNoted is how many unknown fields are named.
const maxNoted = 16

// decodeNoting decodes an object and lists the names that it has and that mean nothing.
func decodeNoting(body []byte, into any, unknown *[]string) error {
	if err := json.Unmarshal(body, into); err != nil {
		return err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return err
	}
	known := namesOf(reflect.TypeOf(into).Elem())
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !known[strings.ToLower(name)] && len(*unknown) < maxNoted {
			*unknown = append(*unknown, name)
		}
	}
	return nil
}

// names caches the names of the fields of types.
var names sync.Map // of reflect.Type to map[string]bool

// namesOf returns the names of the fields of a type in JSON, and that of the type of a message.
func namesOf(t reflect.Type) map[string]bool {
	if known, ok := names.Load(t); ok {
		return known.(map[string]bool)
	}
	known := map[string]bool{"type": true}
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			known[name] = true
		}
	}
	names.Store(t, known)
	return known
}
