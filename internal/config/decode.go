package config

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// decode reads a TOML document over what the draft holds. The library would fill the struct by itself, but
// stops at the first value that does not fit and speaks of Go types: it only reads the text here.
func (d *Unvalidated) decode(file string, body []byte) {
	var document map[string]any
	err := toml.Unmarshal(body, &document)
	if err == nil {
		d.text, d.where = body, places(body)
		d.table(file, "", reflect.ValueOf(&d.Config).Elem(), document)
		return
	}
	d.unread = true
	var wrong *toml.DecodeError
	if errors.As(err, &wrong) {
		line, column := wrong.Position()
		err = fmt.Errorf("line %d, column %d: %s; nothing else in the file can be checked before this is mended",
			line, column, strings.TrimPrefix(wrong.Error(), "toml: "))
	}
	d.problems = append(d.problems, fmt.Errorf("%s: %w", file, err))
}

// table reads one table and those inside it. The path is empty or ends with a dot.
func (d *Unvalidated) table(file, path string, into reflect.Value, given map[string]any) {
	for i := range into.NumField() {
		name := into.Type().Field(i).Tag.Get("toml")
		value, ok := given[name]
		if !ok {
			continue
		}
		delete(given, name)
		key, at := path+name, into.Field(i)
		d.setBy[key], d.fromFile[key] = file+": "+key, true
		if at.Kind() == reflect.Struct {
			if inner, ok := value.(map[string]any); ok {
				d.table(file, key+".", at, inner)
			} else {
				d.misfit(key, fmt.Sprintf("this is a table, not %s; write [%s] and its keys below it", shown(key, value), key))
			}
			continue
		}
		if odd, want := fit(at, value); want != "" {
			d.misfit(key, fmt.Sprintf("%s is not %s", shown(key, odd), want))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		key := path + spelled(name)
		d.setBy[key], d.fromFile[key] = file+": "+key, true
		d.misfit(key, "there is no such key; lingua config reference lists those there are")
	}
}

// fit stores a value of the file in a setting, or returns what of it does not fit and what would have.
func fit(at reflect.Value, value any) (odd any, want string) {
	switch v := value.(type) {
	case string:
		if at.Kind() == reflect.String {
			at.SetString(v)
			return nil, ""
		}
	case bool:
		if at.Kind() == reflect.Bool {
			at.SetBool(v)
			return nil, ""
		}
	case int64:
		switch {
		case at.CanInt() && !at.OverflowInt(v):
			at.SetInt(v)
			return nil, ""
		case at.CanFloat():
			at.SetFloat(float64(v))
			return nil, ""
		}
	case float64:
		if at.CanFloat() {
			at.SetFloat(v)
			return nil, ""
		}
	case []any:
		if at.Kind() != reflect.Slice {
			break
		}
		list := reflect.MakeSlice(at.Type(), len(v), len(v))
		for i := range v {
			if odd, want := fit(list.Index(i), v[i]); want != "" {
				return odd, want
			}
		}
		at.Set(list)
		return nil, ""
	}
	return value, kindOf(at.Type())
}

var bareKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// spelled writes a part of a key as the file has to.
func spelled(name string) string {
	if bareKey.MatchString(name) {
		return name
	}
	return strconv.Quote(name)
}
