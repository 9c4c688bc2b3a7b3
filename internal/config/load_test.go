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

// writeFile writes a config file and returns its path.
func writeFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "lingua.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// load loads without validating.
func load(file string, environ []string) (Config, error) {
	d := Load(file, environ)
	return d.Config, errors.Join(d.problems...)
}

func TestLoadDefaults(t *testing.T) {
	t.Parallel()
	c, err := load("", nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Default(), c); diff != "" {
		t.Errorf("loaded (-want +got):\n%s", diff)
	}
}

// TestLoadFileKeepsOtherDefaults checks that keys which a file leaves out keep their defaults, also in a table that it has.
func TestLoadFileKeepsOtherDefaults(t *testing.T) {
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
cpu_max = 1 # a whole number for a fraction
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

func TestLoadFileWithEmptyList(t *testing.T) {
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
		"LINGUA_SCHEDULER_DISPATCH_MAX_RETRY=0", // zero is not the same as unset
		"SERVER_PORT=8000",                      // of another program
		"PORT=9000",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Server.Port = 7000
	want.Server.Host = "::1" // from the file
	want.Callback.AllowedTargets = []string{"192.168.0.0/16", "fd00::/8"}
	want.Scheduler.Dispatch.MaxRetry = 0
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("loaded (-want +got):\n%s", diff)
	}
}

// TestEveryVariable checks that each variable of the reference sets its key and no other.
func TestEveryVariable(t *testing.T) {
	t.Parallel()
	names := Default()
	for i, k := range listSettings(&names) {
		t.Run(k.env, func(t *testing.T) {
			t.Parallel()
			want := Default()
			at := listSettings(&want)[i].field
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
			case reflect.Pointer:
				at.Set(reflect.ValueOf(new(bool)))
				value = "false"
			case reflect.Slice:
				at.Set(reflect.ValueOf([]string{"a", "b"}))
				value = "a,b"
			default:
				t.Fatalf("no test value for a %s", at.Type())
			}
			c, err := load("", []string{k.env + "=" + value})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, c); diff != "" {
				t.Errorf("loaded (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEmptyVariableIsNotSet checks that a variable which a shell or a compose file left empty counts as unset.
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

func TestLoadErrorNamesTheFile(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "[server]\nprot = 1\n")
	_, err := load(file, nil)
	if err == nil || !strings.HasPrefix(err.Error(), file+": server.prot: ") {
		t.Errorf("got %v, want one that begins with %s and the key", err, file)
	}
}

// TestLoadDoesNotValidate checks that an invalid value can still be changed by a flag.
func TestLoadDoesNotValidate(t *testing.T) {
	t.Parallel()
	c, err := load(writeFile(t, "store = \"sqlite\"\n"), nil)
	if err != nil || c.Store != "sqlite" {
		t.Errorf("got %q, %v", c.Store, err)
	}
}

// errorLines validates and returns the lines of the error that are not excerpts.
func errorLines(d *Unvalidated) []string {
	if _, _, err := d.Validate(); err != nil {
		return withoutExcerpts(err)
	}
	return nil
}

// TestErrorsNameTheirSource checks that all errors are reported at once, each with the name of the source that set the key.
func TestErrorsNameTheirSource(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "[server]\nprot = 1\nport = -1\n[log]\nlevel = 7\nformat = \"xml\"\n[scheduler.dispatch]\nmax_retry = 99\nsample_k = 0\n")
	d := Load(file, []string{"LINGUA_SCHEDULER_DISPATCH_SAMPLE_K=999", "LINGUA_SERVER_INSECURE=perhaps"})
	d.Config.Store = "sqlite"
	d.RecordSource("--store", "store")
	want := []string{
		file + ": server.prot: there is no such key; lingua config reference lists all keys",
		file + ": log.level: 7 is not a string in quotes",
		`LINGUA_SERVER_INSECURE: "perhaps" is not true or false`,
		"--store: it has no scheme; use memory, redis://host:6379/0, rediss:// for TLS, redis-sentinel://host:26379,host:26379/master/0 or redis-cluster://host:6379,host:6379",
		file + ": server.port: a port must be between 0 and 65535, not -1",
		file + `: log.format: "xml" is not known; use text or json`,
		"LINGUA_SCHEDULER_DISPATCH_SAMPLE_K: must be between 1 and 256, not 999",
		"scheduler.dispatch.scan_max: must be between sample_k (999) and 100000, not 512", // a default
		file + ": scheduler.dispatch.max_retry: must be between 0 and 10, not 99",
	}
	if diff := cmp.Diff(want, errorLines(d)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

// TestFlagOverridesInvalidValue checks that a flag overrides an invalid value of the file.
func TestFlagOverridesInvalidValue(t *testing.T) {
	t.Parallel()
	d := Load(writeFile(t, "store = \"sqlite\"\n"), nil)
	d.Config.Store = "memory"
	d.RecordSource("--store", "store")
	if c, _, err := d.Validate(); err != nil || c.Store != "memory" {
		t.Errorf("got %q, %v", c.Store, err)
	}
}

// TestNothingIsComparedWithAnInvalidKey checks that no key is compared with one of a wrong type, whose default was not meant.
func TestNothingIsComparedWithAnInvalidKey(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "[scheduler.dispatch]\nack_timeout_ms = \"20s\"\nattempt_timeout_ms = 1000\njob_timeout_ms = 900\n")
	want := []string{
		file + `: scheduler.dispatch.ack_timeout_ms: "20s" is not a whole number of milliseconds`,
		file + ": scheduler.dispatch.job_timeout_ms: must be more than attempt_timeout_ms (1000), not 900",
	}
	if diff := cmp.Diff(want, errorLines(Load(file, nil))); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	// Nothing is validated if the file cannot be read: it might have set a valid value.
	for _, file := range []string{writeFile(t, "[server\n"), "/does/not/exist"} {
		if got := errorLines(Load(file, []string{"LINGUA_SERVER_HOST=0.0.0.0"})); len(got) != 1 || !strings.Contains(got[0], file) {
			t.Errorf("got %q, want one problem of %s", got, file)
		}
	}
}
