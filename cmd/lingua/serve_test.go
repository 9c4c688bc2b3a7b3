package main

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/config"
)

// TestServeUntilStopped checks that serve runs until its context ends and then exits with 0.
func TestServeUntilStopped(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	resp, err := http.Get(s.url + "/readyz")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%v %v", resp, err)
	}
	_ = resp.Body.Close()
	if code := s.stop(); code != exitOK {
		t.Errorf("exit %d", code)
	}
	if got := runCommand(t, "nodes", "--server", s.url); got.code != exitUnreachable {
		t.Errorf("it still responds: %+v", got)
	}
}

// cancelledContext returns a context that has ended: a server that starts in it stops at once.
func cancelledContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// TestServeLogsExposureWithoutKeys checks that a server without keys logs at each start which clients can reach it.
func TestServeLogsExposureWithoutKeys(t *testing.T) {
	t.Parallel()
	if got := runCommandEnv(cancelledContext(), nil, "serve", "--listen", "127.0.0.1:0"); got.code != exitOK || !strings.Contains(got.err, "only this machine") {
		t.Errorf("exit %d\n%s", got.code, got.err)
	}
	got := runCommandEnv(cancelledContext(), nil, "serve", "--listen", "0.0.0.0:0", "--insecure")
	if got.code != exitOK || !strings.Contains(got.err, "level=WARN") || !strings.Contains(got.err, "INSECURE") {
		t.Errorf("exit %d, want a warning\n%s", got.code, got.err)
	}
}

// TestConfigPrecedence checks that flags win over the environment, and the environment over the file.
func TestConfigPrecedence(t *testing.T) {
	t.Parallel()
	file := writeConfig(t, "[server]\nhost = \"127.0.0.1\"\nport = 1111\nshutdown_seconds = 7\n[log]\nlevel = \"warn\"\nformat = \"json\"\n")
	environ := []string{"LINGUA_SERVER_PORT=2222", "LINGUA_LOG_LEVEL=error"}
	for name, c := range map[string]struct {
		cmd     serveCmd
		environ []string
		port    int
		level   string
	}{
		"defaults":    {port: config.Default().Server.Port, level: "info"},
		"file":        {cmd: serveCmd{Config: file}, port: 1111, level: "warn"},
		"environment": {cmd: serveCmd{Config: file}, environ: environ, port: 2222, level: "error"},
		"flags":       {cmd: serveCmd{Config: file, Listen: "localhost:3333", LogLevel: "debug"}, environ: environ, port: 3333, level: "debug"},
	} {
		cfg, _, err := c.cmd.loadConfig(c.environ)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if cfg.Server.Port != c.port || cfg.Log.Level != c.level {
			t.Errorf("%s: want port %d and level %s, got %+v %+v", name, c.port, c.level, cfg.Server, cfg.Log)
		}
	}
}

// TestServeJSONLog checks that the JSON log has one object on each line.
func TestServeJSONLog(t *testing.T) {
	t.Parallel()
	got := runCommandEnv(cancelledContext(), nil, "serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--log-level", "debug")
	for line := range strings.Lines(got.err) {
		var entry struct{ Level, Msg string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Msg == "" {
			t.Errorf("%q: %v", line, err)
		}
	}
	if !strings.Contains(got.err, "stopped") {
		t.Errorf("it did not log that it stopped:\n%s", got.err)
	}
}
