package storetest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// Fields checks that a stored type keeps every field. It sets each field of the type alone, found by reflection, and then all of them, so
// that neither a new field nor a condition on other fields can be forgotten.
type Fields[T any] struct {
	Base   T                         // the fields without which a value cannot be stored; other fields are set in copies of it
	Except []string                  // the fields that are not kept, such as "History.Token", with those below them
	Values map[string]any            // values of fields of which not every value is valid
	Keep   func(t *testing.T, v T) T // stores a value, and returns what is read of it
}

// Check runs the checks.
func (f Fields[T]) Check(t *testing.T) {
	t.Helper()
	every := fieldSetter{except: f.Except, values: f.Values, only: -1}
	all := f.Base
	every.set(reflect.ValueOf(&all).Elem(), "")
	if every.count == 0 {
		t.Fatalf("%T has no fields", f.Base)
	}
	for _, path := range f.Except {
		if !every.excepted[path] {
			t.Errorf("%T has no field %s", f.Base, path)
		}
	}
	f.compare(t, "all fields", all)
	for n := range every.count {
		one := fieldSetter{except: f.Except, values: f.Values, only: n}
		v := f.Base
		one.set(reflect.ValueOf(&v).Elem(), "")
		f.compare(t, one.path, v)
	}
}

func (f Fields[T]) compare(t *testing.T, path string, v T) {
	t.Helper()
	exported := cmp.Exporter(func(reflect.Type) bool { return true })
	if diff := cmp.Diff(v, f.Keep(t, v), cmpopts.EquateEmpty(), cmpopts.EquateApproxTime(0), exported); diff != "" {
		t.Errorf("%T with %s (-stored +read):\n%s", v, path, diff)
	}
}

// ThroughJSON returns what is read of a value that is stored as JSON.
func ThroughJSON[T any](t *testing.T, v T) (got T) {
	t.Helper()
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &got)
	}
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// fieldSetter sets fields to values that are not zero, each to another one.
type fieldSetter struct {
	except   []string
	values   map[string]any
	only     int // the number of the field that is set; -1: all
	count    int // of the fields so far
	path     string
	excepted map[string]bool
}

// fieldValues are values of types of which not every value is valid.
var fieldValues = map[reflect.Type]any{
	reflect.TypeFor[core.Health](): core.HealthDegraded, reflect.TypeFor[core.State](): core.StateRetrying,
	reflect.TypeFor[core.Lang]():          core.Lang("de"),
	reflect.TypeFor[core.ServiceStatus](): core.ServiceReady, reflect.TypeFor[core.Tri](): core.Yes,
	reflect.TypeFor[[]byte](): []byte(`{"a":1}`),
}

// set sets the fields of v, and reports whether it has set one.
func (s *fieldSetter) set(v reflect.Value, path string) bool {
	if slices.Contains(s.except, path) {
		if s.excepted == nil {
			s.excepted = make(map[string]bool)
		}
		s.excepted[path] = true
		return false
	}
	given, ok := s.values[path]
	if !ok {
		given, ok = fieldValues[v.Type()]
	}
	switch {
	case ok:
		return s.setValue(v, path, reflect.ValueOf(given).Convert(v.Type()))
	case v.Type() == reflect.TypeFor[time.Time]():
		return s.setValue(v, path, reflect.ValueOf(time.UnixMilli(1_700_000_000_000+int64(s.count)).UTC()))
	}
	switch v.Kind() {
	case reflect.Struct:
		changed := false
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() || field.Anonymous {
				changed = s.set(v.Field(i), joinPath(path, field)) || changed
			}
		}
		return changed
	case reflect.Array: // all elements at once: some have hundreds
		list, every := reflect.New(v.Type()).Elem(), fieldSetter{only: -1}
		for i := range v.Len() {
			every.set(list.Index(i), path)
		}
		return s.setValue(v, path, list)
	case reflect.Pointer:
		e := reflect.New(v.Type().Elem())
		if s.set(e.Elem(), path) {
			v.Set(e)
			return true
		}
		return false
	case reflect.Slice:
		list := reflect.MakeSlice(v.Type(), 1, 1)
		if s.set(list.Index(0), path) {
			v.Set(list)
			return true
		}
		return false
	case reflect.Map:
		key, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		(&fieldSetter{only: -1}).set(key, path)
		if s.set(e, path) {
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(key, e)
			return true
		}
		return false
	case reflect.String:
		return s.setValue(v, path, reflect.ValueOf(fmt.Sprint("v-", s.count)).Convert(v.Type()))
	case reflect.Bool:
		return s.setValue(v, path, reflect.ValueOf(true).Convert(v.Type()))
	default: // a number
		return s.setValue(v, path, reflect.ValueOf(s.count%100+1).Convert(v.Type()))
	}
}

func (s *fieldSetter) setValue(v reflect.Value, path string, value reflect.Value) bool {
	number := s.count
	s.count++
	if s.only >= 0 && s.only != number {
		return false
	}
	s.path = path
	v.Set(value)
	return true
}

func joinPath(path string, field reflect.StructField) string {
	switch {
	case field.Anonymous:
		return path
	case path == "":
		return field.Name
	}
	return path + "." + field.Name
}
