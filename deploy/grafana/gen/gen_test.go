package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDashboardsAreGenerated checks that the dashboards are those of the descriptions.
func TestDashboardsAreGenerated(t *testing.T) {
	t.Parallel()
	written := make(map[string]bool)
	for _, d := range dashboards() {
		want, err := encode(&d)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join("..", d.fileName()))
		if err != nil {
			t.Fatalf("%v: run make dashboards", err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s: run make dashboards (-want +got):\n%s", d.fileName(), diff)
		}
		written[d.fileName()] = true
	}
	files, err := filepath.Glob("../*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !written[filepath.Base(file)] {
			t.Errorf("%s is not one of the dashboards", file)
		}
	}
}
