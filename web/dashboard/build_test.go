package dashboard_test

import (
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"testing"

	"github.com/lingua-scheduler/lingua/web/dashboard"
)

// maxScript is the size of all scripts together as they are sent, in bytes.
const maxScript = 150_000

// TestBuild builds the page again: the files that are part of the program are those of the sources.
func TestBuild(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it needs Node.js and the dependencies of the dashboard")
	}
	if _, err := os.Stat("node_modules/vite"); err != nil {
		t.Fatalf("the dependencies of the dashboard are not installed; install them with: make tools (%v)", err)
	}
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "node", "node_modules/vite/bin/vite.js", "build", "--outDir", dir, "--emptyOutDir", "--logLevel", "error").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	built, embedded := files(t, os.DirFS(dir), "."), files(t, dashboard.Files, "dist")
	for name, body := range built {
		if !bytes.Equal(embedded[name], body) {
			t.Errorf("dist/%s is missing or not what the sources give: run make dashboard and commit it", name)
		}
	}
	for name := range embedded {
		if built[name] == nil {
			t.Errorf("dist/%s does not belong to the sources: run make dashboard and commit it", name)
		}
	}
}

// TestSize: the scripts stay small.
func TestSize(t *testing.T) {
	t.Parallel()
	size := 0
	for name, body := range files(t, dashboard.Files, "dist") {
		if path.Ext(name) == ".js" {
			var out bytes.Buffer
			z := gzip.NewWriter(&out)
			if _, err := z.Write(body); err != nil {
				t.Fatal(err)
			}
			if err := z.Close(); err != nil {
				t.Fatal(err)
			}
			size += out.Len()
		}
	}
	t.Logf("the scripts have %d bytes with gzip, at most %d", size, maxScript)
	if size == 0 || size > maxScript {
		t.Errorf("the scripts have %d bytes with gzip, at most %d", size, maxScript)
	}
}

// files returns the files below a directory by their path from it.
func files(t *testing.T, in fs.FS, root string) map[string][]byte {
	t.Helper()
	sub, err := fs.Sub(in, root)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string][]byte)
	err = fs.WalkDir(sub, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		all[name], err = fs.ReadFile(sub, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
