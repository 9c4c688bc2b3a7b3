package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/config"
)

// writeConfig writes a config file and returns its path.
func writeConfig(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "lingua.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestConfigReference checks that the printed file is valid and equal to the defaults.
func TestConfigReference(t *testing.T) {
	t.Parallel()
	got := runCommand(t, "config", "reference")
	if got.code != exitOK || got.err != "" {
		t.Fatalf("exit %d: %s", got.code, got.err)
	}
	file := writeConfig(t, got.out)
	c, _, err := config.Load(file, nil).Validate()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(config.Default(), c); diff != "" {
		t.Errorf("(-defaults +reference)\n%s", diff)
	}
	for _, line := range []string{"[scheduler.dispatch]", "ack_timeout_ms = 2000", "# LINGUA_SCHEDULER_DISPATCH_ACK_TIMEOUT_MS"} {
		if !strings.Contains(got.out, line) {
			t.Errorf("the reference does not contain %q", line)
		}
	}
	if checked := runCommand(t, "config", "check", file); checked.code != exitOK || !strings.Contains(checked.out, file+" is valid") {
		t.Errorf("exit %d: %s%s", checked.code, checked.out, checked.err)
	}
}

// TestConfigCheck checks that every error is reported at once, with its location.
func TestConfigCheck(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text    string
		environ []string
		want    []string // empty: the file is valid
	}{
		"empty":         {},
		"some keys":     {text: "[server]\nport = 6000\n[scheduler.dispatch]\nmax_retry = 1\n"},
		"unknown key":   {text: "[server]\nprot = 6000\n", want: []string{"FILE: server.prot: ", "lingua config reference"}},
		"unknown table": {text: "[sever]\nport = 6000\n", want: []string{"FILE: sever: "}},
		"wrong type":    {text: "[server]\nport = \"many\"\n", want: []string{"FILE: server.port: \"many\" is not a whole number\n"}},
		"not TOML":      {text: "[server\n", want: []string{"FILE: line 1, column 8: "}},
		"every kind at once": {
			text: "[server]\nprot = 1\nport = \"many\"\n[scheduler.dispatch]\nmax_retry = 99\n", environ: []string{"LINGUA_LOG_LEVEL=loud"},
			want: []string{"FILE: server.prot: ", "FILE: server.port: ", "FILE: scheduler.dispatch.max_retry: ", "\nLINGUA_LOG_LEVEL: "},
		},
		"several at once":   {text: "store = \"redis\"\n[scheduler.dispatch]\nmax_retry = 99\nack_timeout_ms = 20000\n", want: []string{"store", "max_retry", "reserved_ttl_seconds", "attempt_timeout_ms"}},
		"not loopback":      {text: "[server]\nhost = \"0.0.0.0\"\n", want: []string{"server.host", "--insecure"}},
		"insecure":          {text: "[server]\nhost = \"0.0.0.0\"\ninsecure = true\n"},
		"bad target":        {text: "[callback]\nallowed_targets = [\"everywhere\"]\n", want: []string{"callback.allowed_targets", "10.0.0.0/8"}},
		"environment":       {environ: []string{"LINGUA_SERVER_PORT=-1"}, want: []string{"\nLINGUA_SERVER_PORT: ", "-1"}},
		"bad environment":   {environ: []string{"LINGUA_SERVER_PORT=many"}, want: []string{"\nLINGUA_SERVER_PORT: \"many\" is not a whole number\n"}},
		"environment wins":  {text: "[server]\nport = -1\n", environ: []string{"LINGUA_SERVER_PORT=1"}},
		"other environment": {environ: []string{"LINGUA_URL=http://127.0.0.1:5010", "HOME=/"}},
	} {
		file := writeConfig(t, c.text)
		got := runCommandEnv(t.Context(), c.environ, "config", "check", file)
		if len(c.want) == 0 {
			if got.code != exitOK || got.out != file+" is valid\n" || got.err != "" {
				t.Errorf("%s: exit %d\n%s%s", name, got.code, got.out, got.err)
			}
			continue
		}
		if got.code != exitUsage || got.out != "" || !strings.HasPrefix(got.err, "lingua: "+file+" is not valid\n") {
			t.Errorf("%s: want exit 2 and the file named, got %d\n%s%s", name, got.code, got.out, got.err)
		}
		for _, word := range c.want {
			word = strings.Replace(word, "FILE", "\n"+file, 1) // each problem has a line of its own
			if !strings.Contains(got.err, word) {
				t.Errorf("%s: want %q in\n%s", name, word, got.err)
			}
		}
	}
}

// TestConfigShow checks that the configuration of a running scheduler is shown.
func TestConfigShow(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	got := runCommand(t, "config", "show", "--server", s.url)
	for _, line := range []string{"KEY VALUE", "server.host 127.0.0.1 default", "scheduler.dispatch.max_retry 2 default", "NAME ROLE TENANT SECRETS REFUSED"} {
		if !slices.Contains(rows(got.out), line) {
			t.Errorf("%q is not in\n%s%s", line, got.out, got.err)
		}
	}
	got = runCommand(t, "config", "show", "--changed", "--server", s.url)
	if got.code != exitOK || strings.Contains(got.out, "default") || !strings.Contains(got.out, "server.port") {
		t.Errorf("exit %d\n%s%s", got.code, got.out, got.err)
	}
}
