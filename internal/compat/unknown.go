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

// decodeNoting decodes an object and lists the names that it has, also in the objects in it, and that mean nothing.
func decodeNoting(body []byte, into any, unknown *[]string) error {
	if err := json.Unmarshal(body, into); err != nil {
		return err
	}
	noteUnknown(body, reflect.TypeOf(into).Elem(), "", unknown)
	return nil
}

// noteUnknown lists the names of a value that a type does not have. Each is preceded by the names of the objects in which it is.
func noteUnknown(body []byte, t reflect.Type, path string, unknown *[]string) {
	switch t.Kind() {
	case reflect.Pointer:
		noteUnknown(body, t.Elem(), path, unknown)
	case reflect.Slice:
		var items []json.RawMessage
		if json.Unmarshal(body, &items) != nil {
			return
		}
		for _, item := range items {
			noteUnknown(item, t.Elem(), path, unknown)
		}
	case reflect.Struct:
		var fields map[string]json.RawMessage
		if json.Unmarshal(body, &fields) != nil {
			return // a value in place of an object
		}
		known := fieldsOf(t)
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			if field := known[strings.ToLower(name)]; field != nil {
				noteUnknown(fields[name], field, path+name+".", unknown)
			} else if len(*unknown) < maxNoted && !slices.Contains(*unknown, path+name) && (path != "" || name != "type") {
				*unknown = append(*unknown, path+name)
			}
		}
	}
}

// fieldTypes caches the fields of types.
var fieldTypes sync.Map // of reflect.Type to map[string]reflect.Type

// fieldsOf returns the fields of a struct by their names in JSON. Of several with one name encoding/json takes the one that is embedded
// least deeply.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	if known, ok := fieldTypes.Load(t); ok {
		return known.(map[string]reflect.Type)
	}
	known, depths := make(map[string]reflect.Type), make(map[string]int)
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if depth := depths[name]; name != "" && (depth == 0 || len(f.Index) < depth) {
			known[name], depths[name] = f.Type, len(f.Index)
		}
	}
	fieldTypes.Store(t, known)
	return known
}
