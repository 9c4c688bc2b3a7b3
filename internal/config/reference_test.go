package config

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func referenceText(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	if err := WriteReference(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestReferenceEqualsDefaults checks that the reference, decoded over an empty configuration, gives all the defaults.
func TestReferenceEqualsDefaults(t *testing.T) {
	t.Parallel()
	var c Config
	if err := decodeOver(&c, referenceText(t)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Default(), c); diff != "" {
		t.Errorf("decoded (-want +got):\n%s", diff)
	}
}

func TestReferenceDocumentsEveryKey(t *testing.T) {
	t.Parallel()
	text := referenceText(t)
	c := Default()
	for _, k := range listSettings(&c) {
		name := k.key[strings.LastIndexByte(k.key, '.')+1:]
		if k.field.Kind() == reflect.Pointer {
			name = "# " + name // its default depends on other keys
		}
		if block := "# " + k.doc + "\n# " + k.env + "\n" + name + " = "; strings.Count(text, block) != 1 {
			t.Errorf("%s: the reference does not contain once\n%s", k.key, block)
		}
	}
}

// fullDisk is a writer that fails.
type fullDisk struct{}

var errFull = errors.New("disk full")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestReferenceWriteError(t *testing.T) {
	t.Parallel()
	if err := WriteReference(fullDisk{}); !errors.Is(err, errFull) {
		t.Errorf("got %v, want %v", err, errFull)
	}
}

// TestEveryKeyHasNameAndDoc checks that keys and variables have unique names and a documentation.
func TestEveryKeyHasNameAndDoc(t *testing.T) {
	t.Parallel()
	c := Default()
	names, variables := make(map[string]bool), make(map[string]bool)
	for _, k := range listSettings(&c) {
		if k.doc == "" {
			t.Errorf("%s has no documentation", k.key)
		}
		if names[k.key] || variables[k.env] || k.key == "" || k.env == EnvPrefix {
			t.Errorf("%s, %s: a name is missing or used twice", k.key, k.env)
		}
		names[k.key], variables[k.env] = true, true
	}
}
