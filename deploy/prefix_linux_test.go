package deploy_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/test/child"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestPrefixOfTheManual runs HAProxy with the lines of the manual for a prefix: one frontend forwards paths as they are, and one removes the
// prefix. The dashboard works behind both.
func TestPrefixOfTheManual(t *testing.T) {
	t.Parallel()
	skipShort(t)
	program, err := exec.LookPath("haproxy")
	if err != nil {
		t.Fatal("haproxy is not on PATH: make tools installs it")
	}
	lines := regexp.MustCompile("(?s)```text\n(frontend keeps.*?)```").FindStringSubmatch(text(t, operationsPage))
	if lines == nil {
		t.Fatal("the manual has no configuration for a prefix")
	}
	keeps, removes := child.Address(child.Port(t)), child.Address(child.Port(t))
	body := strings.NewReplacer("bind :8080", "bind "+keeps, "bind :8081", "bind "+removes, "127.0.0.1:5010", startAtPrefix(t, "/lingua")).Replace(lines[1])
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	defaults := "defaults\n    mode http\n    timeout connect 5s\n    timeout client 20s\n    timeout server 20s\n\n"
	if err := os.WriteFile(file, []byte(defaults+body), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, "proxy", os.Environ(), program, "-db", "-f", file)
	for _, address := range []string{keeps, removes} {
		at := "http://" + address + "/lingua"
		waitUntil(t, "waiting for the proxy", p, func() error { return status(at+"/healthz", http.StatusOK) })
		for path, want := range map[string]int{"/dashboard": http.StatusOK, "/dashboard/icon.svg": http.StatusOK, "/v1/caller": http.StatusOK, "/no/such/path": http.StatusNotFound} {
			if err := status(at+path, want); err != nil {
				t.Error(err)
			}
		}
		if err := status("http://"+address+"/healthz", http.StatusServiceUnavailable); err != nil { // no backend is for it
			t.Error(err)
		}
	}
}

// startAtPrefix starts a scheduler with a base path, and returns its address.
func startAtPrefix(t *testing.T, base string) string {
	t.Helper()
	cfg := config.Default()
	cfg.Server.Port, cfg.Server.ShutdownSeconds, cfg.Server.BasePath = 0, 0, base
	s, err := scheduler.New(t.Context(), cfg, wire.VersionResponse{Version: "test", Go: "go"}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// status returns an error unless a request is answered with this status, after redirects.
func status(address string, want int) error {
	resp, err := http.Get(address)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != want {
		return fmt.Errorf("%s: %s, want %d", address, resp.Status, want)
	}
	return nil
}
