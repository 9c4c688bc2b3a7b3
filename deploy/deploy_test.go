// Package deploy_test checks the files of a deployment as far as that is possible without a registry and without root:
// every file is parsed strictly and compared with the program that it configures, and the services of compose.yaml are
// started.
package deploy_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	yaml "github.com/oasdiff/yaml3"
	"go.uber.org/goleak"
)

// scratch is a directory for what is built once for all tests.
var scratch string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if scratch, err = os.MkdirTemp("", "lingua-deploy-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(scratch)
		code := m.Run()
		http.DefaultClient.CloseIdleConnections()
		if code == 0 {
			if err := goleak.Find(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
		}
		return code
	}())
}

// text returns the content of a file, relative to this directory.
func text(t *testing.T, name string) string {
	t.Helper()
	body, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// decode decodes YAML and refuses unknown keys, so that a misspelled key is found.
func decode(t *testing.T, name string, into any) {
	t.Helper()
	d := yaml.NewDecoder(strings.NewReader(text(t, name)))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// skipShort skips a short test that would run programs.
func skipShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it runs programs")
	}
}

// tool runs a program that checks a file, if it is installed, and returns its output.
func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Logf("%s is not installed: only the checks of this package were made", name)
		return ""
	}
	return mustTool(t, name, args...)
}

// mustTool runs a program that `make test` installs.
func mustTool(t *testing.T, name string, args ...string) string {
	t.Helper()
	skipShort(t)
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Errorf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// makeKeys runs keys.sh once, as a deployment does, and returns the directory of the secrets.
var makeKeys = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(scratch, "secrets")
	if out, err := exec.Command("sh", "keys.sh", dir).CombinedOutput(); err != nil {
		return "", fmt.Errorf("keys.sh: %w\n%s", err, out)
	}
	return dir, nil
})

// secrets returns the directory of the secrets.
func secrets(t *testing.T) string {
	t.Helper()
	skipShort(t)
	dir, err := makeKeys()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// composeInstalled reports whether `docker compose`, which parses a compose file without a daemon, is installed.
func composeInstalled(t *testing.T) bool {
	t.Helper()
	return exec.CommandContext(t.Context(), "docker", "compose", "version").Run() == nil
}
