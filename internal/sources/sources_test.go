package sources_test

import (
	"testing"

	"github.com/lingua-scheduler/lingua/internal/sources"
)

// TestParse: the files of a package are parsed, without its tests; a directory that has none is an error.
func TestParse(t *testing.T) {
	t.Parallel()
	files, err := sources.Parse(".")
	if err != nil || len(files) != 1 || files[0].Name.Name != "sources" {
		t.Errorf("%d files, %v", len(files), err)
	}
	for _, dir := range []string{t.TempDir(), "missing", "["} {
		if files, err := sources.Parse(dir); err == nil {
			t.Errorf("%s: %d files and no error", dir, len(files))
		}
	}
}
