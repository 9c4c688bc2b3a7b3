package compat

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/lingua-scheduler/lingua/wire"
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

// decodeStrictly decodes options: one that is not known may be a requirement, and a job that is done without it is done wrongly.
func decodeStrictly(body []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		return nil
	}
	if quoted, is := strings.CutPrefix(err.Error(), "json: unknown field "); is {
		var name string
		if json.Unmarshal([]byte(quoted), &name) != nil {
			name = quoted
		}
		return wire.Invalid("options", "has the field %s, which is not known: it may be a requirement, so it is not ignored", wire.Quote(name))
	}
	return err
}
