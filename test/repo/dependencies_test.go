package repo_test

import (
	"os/exec"
	"strings"
	"testing"
)

// TestTracingStaysLight checks that traces bring neither gRPC nor the OpenTelemetry SDK into the program, and nothing of OpenTelemetry into the
// public packages that do not need it.
func TestTracingStaysLight(t *testing.T) {
	t.Parallel()
	const otel = "go.opentelemetry.io/"
	for pkg, forbidden := range map[string][]string{
		"./cmd/lingua": {"google.golang.org/grpc", otel + "otel/sdk", otel + "otel/exporters"},
		"./node":       {"google.golang.org/", otel + "otel/sdk", otel + "otel/metric", otel + "proto"},
		"./client":     {"google.golang.org/", otel},
		"./wire":       {"google.golang.org/", otel},
	} {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", pkg).Output()
		if err != nil {
			t.Fatal(err)
		}
		for dep := range strings.Lines(string(out)) {
			for _, prefix := range forbidden {
				if strings.HasPrefix(dep, prefix) {
					t.Errorf("%s depends on %s", pkg, strings.TrimSpace(dep))
				}
			}
		}
	}
}
