// Package deploy_test checks what is deployed as far as that can be done without a registry and without root: every
// file is read strictly and held against the program it is for, and what compose.yaml starts is started.
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

// scratch holds what is built once for all tests.
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

// text reads a file, named from this directory.
func text(t *testing.T, name string) string {
	t.Helper()
	body, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// decode reads YAML and refuses what the type does not know, so that a key that is misspelt does not pass for one.
func decode(t *testing.T, name string, into any) {
	t.Helper()
	d := yaml.NewDecoder(strings.NewReader(text(t, name)))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// tool runs a program that checks our files, where it is installed, and returns what it says.
func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	found, err := exec.LookPath(name)
	if err != nil {
		t.Logf("%s is not installed: only our own checks were made", name)
		return ""
	}
	out, err := exec.CommandContext(t.Context(), found, args...).CombinedOutput()
	if err != nil {
		t.Errorf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// keys are made by keys.sh, once, as whoever deploys makes them.
var keys = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(scratch, "secrets")
	if out, err := exec.Command("sh", "keys.sh", dir).CombinedOutput(); err != nil {
		return "", fmt.Errorf("keys.sh: %w\n%s", err, out)
	}
	return dir, nil
})

func secrets(t *testing.T) string {
	t.Helper()
	dir, err := keys()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// composeInstalled reports whether docker has its plugin, which reads a composition without a daemon.
func composeInstalled(t *testing.T) bool {
	t.Helper()
	return exec.CommandContext(t.Context(), "docker", "compose", "version").Run() == nil
}
