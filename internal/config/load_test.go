package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func writeFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "lingua.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// load reads without judging.
func load(file string, environ []string) (Config, error) {
	d := Load(file, environ)
	return d.Config, errors.Join(d.problems...)
}

func TestLoadNothing(t *testing.T) {
	t.Parallel()
	c, err := load("", nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Default(), c); diff != "" {
		t.Errorf("loaded (-want +got):\n%s", diff)
	}
}

// What a file leaves out keeps its default, also within a table it has.
func TestLoadFile(t *testing.T) {
	t.Parallel()
	c, err := load(writeFile(t, `
[server]
port = 6000

[callback]
allowed_targets = ["10.0.0.0/8"]

[scheduler.dispatch]
ack_timeout_ms = 1500
candidate_shuffle = false

[scheduler.resource_limits]
cpu_max = 1 # a whole number for a part
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Server.Port = 6000
	want.Callback.AllowedTargets = []string{"10.0.0.0/8"} // in place of the defaults, not after them
	want.Scheduler.Dispatch.ACKTimeoutMS = 1500
	want.Scheduler.Dispatch.CandidateShuffle = false
	want.Scheduler.ResourceLimits.CPUMax = 1
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("loaded (-want +got):\n%s", diff)
	}
}

func TestLoadFileEmptiesAList(t *testing.T) {
	t.Parallel()
	c, err := load(writeFile(t, "callback.allowed_targets = []\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Callback.AllowedTargets) != 0 {
		t.Errorf("allowed targets are %v, want none", c.Callback.AllowedTargets)
	}
}

func TestEnvironmentWinsOverFile(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "[server]\nport = 6000\nhost = \"::1\"\n[callback]\nallowed_targets = [\"10.0.0.0/8\"]\n")
	c, err := load(file, []string{
		"LINGUA_SERVER_PORT=7000",
		"LINGUA_CALLBACK_ALLOWED_TARGETS=192.168.0.0/16,fd00::/8",
		"LINGUA_SCHEDULER_DISPATCH_MAX_RETRY=0", // zero is said, not left out
		"SERVER_PORT=8000",                      // somebody else's
		"PORT=9000",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Server.Port = 7000
	want.Server.Host = "::1" // of the file: the environment does not name it
	want.Callback.AllowedTargets = []string{"192.168.0.0/16", "fd00::/8"}
	want.Scheduler.Dispatch.MaxRetry = 0
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("loaded (-want +got):\n%s", diff)
	}
}

// Every key can be set by the variable that the reference names for it, and by that one alone.
func TestEveryVariable(t *testing.T) {
	t.Parallel()
	names := Default()
	for i, k := range keys(&names) {
		t.Run(k.Env, func(t *testing.T) {
			t.Parallel()
			want := Default()
			at := keys(&want)[i].At
			var value string
			switch at.Kind() {
			case reflect.String:
				value = "something"
				at.SetString(value)
			case reflect.Bool:
				at.SetBool(!at.Bool())
				value = fmt.Sprint(at.Bool())
			case reflect.Int, reflect.Int64:
				at.SetInt(at.Int() + 1)
				value = fmt.Sprint(at.Int())
			case reflect.Float64:
				at.SetFloat(0.25)
				value = "0.25"
			case reflect.Slice:
				at.Set(reflect.ValueOf([]string{"a", "b"}))
				value = "a,b"
			default:
				t.Fatalf("do not know how to set a %s", at.Type())
			}
			c, err := load("", []string{k.Env + "=" + value})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, c); diff != "" {
				t.Errorf("loaded (-want +got):\n%s", diff)
			}
		})
	}
}

// An empty variable is one that a shell or a compose file left empty: it is not set.
func TestEmptyVariableIsNotSet(t *testing.T) {
	t.Parallel()
	c, err := load("", []string{"LINGUA_SERVER_PORT=", "LINGUA_SERVER_HOST="})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Default(), c); diff != "" {
		t.Errorf("loaded (-want +got):\n%s", diff)
	}
}

func TestLoadMissingFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "no-such.toml")
	_, err := load(file, nil)
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), file) {
		t.Errorf("got %v, want one that names %s", err, file)
	}
}

func TestLoadNamesTheFile(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "[server]\nprot = 1\n")
	_, err := load(file, nil)
	if err == nil || !strings.HasPrefix(err.Error(), file+": server.prot: ") {
		t.Errorf("got %v, want one that begins with %s and the key", err, file)
	}
}

// Load does not judge: flags may still mend what the file says.
func TestLoadDoesNotValidate(t *testing.T) {
	t.Parallel()
	c, err := load(writeFile(t, "store = \"sqlite\"\n"), nil)
	if err != nil || c.Store != "sqlite" {
		t.Errorf("got %q, %v", c.Store, err)
	}
}
