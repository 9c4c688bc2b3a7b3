package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/config"
)

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "lingua.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestConfigReference prints a file that means the same as none, and that the check likes.
func TestConfigReference(t *testing.T) {
	t.Parallel()
	got := call(t, "config", "reference")
	if got.code != exitOK || got.err != "" {
		t.Fatalf("exit %d: %s", got.code, got.err)
	}
	file := write(t, got.out)
	c, err := config.Load(file, nil).Validate()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(config.Default(), c); diff != "" {
		t.Errorf("(-defaults +reference)\n%s", diff)
	}
	for _, line := range []string{"[scheduler.dispatch]", "ack_timeout_ms = 2000", "# LINGUA_SCHEDULER_DISPATCH_ACK_TIMEOUT_MS"} {
		if !strings.Contains(got.out, line) {
			t.Errorf("it does not show %q", line)
		}
	}
	if checked := call(t, "config", "check", file); checked.code != exitOK || !strings.Contains(checked.out, file+" is fine") {
		t.Errorf("exit %d: %s%s", checked.code, checked.out, checked.err)
	}
}

// TestConfigCheck says everything that is wrong at once, and where.
func TestConfigCheck(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text    string
		environ []string
		says    []string // nothing: it is fine
	}{
		"empty":         {},
		"some keys":     {text: "[server]\nport = 6000\n[scheduler.dispatch]\nmax_retry = 1\n"},
		"unknown key":   {text: "[server]\nprot = 6000\n", says: []string{"FILE: server.prot: ", "lingua config reference"}},
		"unknown table": {text: "[sever]\nport = 6000\n", says: []string{"FILE: sever: "}},
		"wrong type":    {text: "[server]\nport = \"many\"\n", says: []string{"FILE: server.port: \"many\" is not a whole number\n"}},
		"not TOML":      {text: "[server\n", says: []string{"FILE: line 1, column 8: "}},
		"every kind at once": {
			text: "[server]\nprot = 1\nport = \"many\"\n[scheduler.dispatch]\nmax_retry = 99\n", environ: []string{"LINGUA_LOG_LEVEL=loud"},
			says: []string{"FILE: server.prot: ", "FILE: server.port: ", "FILE: scheduler.dispatch.max_retry: ", "\nLINGUA_LOG_LEVEL: "},
		},
		"several at once":   {text: "store = \"redis\"\n[scheduler.dispatch]\nmax_retry = 99\nack_timeout_ms = 20000\n", says: []string{"store", "max_retry", "reserved_ttl_seconds", "attempt_timeout_ms"}},
		"not loopback":      {text: "[server]\nhost = \"0.0.0.0\"\n", says: []string{"server.host", "--insecure"}},
		"insecure":          {text: "[server]\nhost = \"0.0.0.0\"\ninsecure = true\n"},
		"bad target":        {text: "[callback]\nallowed_targets = [\"everywhere\"]\n", says: []string{"callback.allowed_targets", "10.0.0.0/8"}},
		"environment":       {environ: []string{"LINGUA_SERVER_PORT=-1"}, says: []string{"\nLINGUA_SERVER_PORT: ", "-1"}},
		"bad environment":   {environ: []string{"LINGUA_SERVER_PORT=many"}, says: []string{"\nLINGUA_SERVER_PORT: \"many\" is not a whole number\n"}},
		"environment wins":  {text: "[server]\nport = -1\n", environ: []string{"LINGUA_SERVER_PORT=1"}},
		"other environment": {environ: []string{"LINGUA_URL=http://127.0.0.1:5010", "HOME=/"}},
	} {
		file := write(t, c.text)
		got := callIn(t.Context(), c.environ, "config", "check", file)
		if len(c.says) == 0 {
			if got.code != exitOK || got.out != file+" is fine\n" || got.err != "" {
				t.Errorf("%s: exit %d\n%s%s", name, got.code, got.out, got.err)
			}
			continue
		}
		if got.code != exitUsage || got.out != "" || !strings.HasPrefix(got.err, "lingua: "+file+" is not fine\n") {
			t.Errorf("%s: want exit 2 and the file named, got %d\n%s%s", name, got.code, got.out, got.err)
		}
		for _, word := range c.says {
			word = strings.Replace(word, "FILE", "\n"+file, 1) // each problem has a line of its own
			if !strings.Contains(got.err, word) {
				t.Errorf("%s: want %q in\n%s", name, word, got.err)
			}
		}
	}
}
