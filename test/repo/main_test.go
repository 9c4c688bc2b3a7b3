// Package repo_test checks the repository: that imports follow the layers, and that the documents match the code.
package repo_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain runs the tests in the root of the repository, from where they name its files. The cache of go test does not see that, and would repeat
// an old result when a page has changed: run them with -count=1.
func TestMain(m *testing.M) {
	if err := os.Chdir(filepath.Join("..", "..")); err != nil {
		panic(err)
	}
	m.Run()
}

// goFiles calls fn with each Go file of the repository and its package.
func goFiles(t *testing.T, fn func(file, dir string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "tools" || d.Name() == "bin" || d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && p != "."):
			return filepath.SkipDir
		case strings.HasSuffix(p, ".go"):
			fn(p, path.Dir(filepath.ToSlash(p)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
