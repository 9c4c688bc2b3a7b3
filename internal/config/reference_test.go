package config

import (
	"errors"
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

// The reference is a config file like any other, and it is the defaults: read over nothing, every one of them
// has to come from its text.
func TestReferenceIsTheDefaults(t *testing.T) {
	t.Parallel()
	var c Config
	if err := decodeOver(&c, referenceText(t)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Default(), c); diff != "" {
		t.Errorf("decoded (-want +got):\n%s", diff)
	}
}

func TestReferenceExplainsEveryKey(t *testing.T) {
	t.Parallel()
	text := referenceText(t)
	c := Default()
	for _, k := range keys(&c) {
		name := k.Name[strings.LastIndexByte(k.Name, '.')+1:]
		if block := "# " + k.Doc + "\n# " + k.Env + "\n" + name + " = "; strings.Count(text, block) != 1 {
			t.Errorf("%s: the reference does not hold, once,\n%s", k.Name, block)
		}
	}
}

type fullDisk struct{}

var errFull = errors.New("disk full")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestReferenceReportsThatItCannotBeWritten(t *testing.T) {
	t.Parallel()
	if err := WriteReference(fullDisk{}); !errors.Is(err, errFull) {
		t.Errorf("got %v, want %v", err, errFull)
	}
}
