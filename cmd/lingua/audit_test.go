package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// TestAudit lists audit entries as a table, as JSON, and follows new ones.
func TestAudit(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.registerNode(t, "n1", 2)
	registered := regexp.MustCompile(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}  operator +node\.register +node/n1 +ok  \(from 127\.0\.0\.1, req-\w{32} by \S+\)\n$`)
	deadline := time.Now().Add(20 * time.Second)
	for {
		got := runCommand(t, "audit", "--server", s.url, "--action", "node.register")
		if got.code == exitOK && registered.MatchString(got.out) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("exit %d\n%s%s", got.code, got.out, got.err)
		}
	}
	got := runCommand(t, "audit", "--server", s.url, "--json")
	var list wire.AuditList
	if err := json.Unmarshal([]byte(got.out), &list); err != nil || len(list.Entries) != 1 {
		t.Fatalf("%v\n%s%s", err, got.out, got.err)
	}
	if got := runCommand(t, "audit", "--server", s.url, "--key", "nobody"); got.code != exitOK || got.out != "no entries\n" {
		t.Errorf("exit %d\n%s%s", got.code, got.out, got.err)
	}
	if got := runCommand(t, "audit", "--server", s.url, "--outcome", "party"); got.code == exitOK || !strings.Contains(got.err, "denied") {
		t.Errorf("exit %d\n%s%s", got.code, got.out, got.err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &watchedOutput{until: regexp.MustCompile(`"action":"node.drain"`), seen: cancel}
	code := make(chan int, 1)
	go func() {
		args := []string{"audit", "--server", s.url, "--follow", "--json", "--after", list.Next}
		code <- execute(ctx, args, streams{out: out, err: out, environ: []string{}})
	}()
	if got := runCommand(t, "drain", "n1", "--server", s.url); got.code != exitOK {
		t.Fatalf("exit %d\n%s%s", got.code, got.out, got.err)
	}
	if c := <-code; c != exitOK || strings.Count(out.text(), "\n") != 1 {
		t.Errorf("exit %d\n%s", c, out.text())
	}
}

func TestFormatAuditEntry(t *testing.T) {
	t.Parallel()
	e := wire.AuditEntry{Key: "grafana", TenantID: "acme", Action: "GET /v1/nodes", Outcome: "denied", Reason: "wrong_role", Suppressed: 7, Instance: "i-1"}
	if got := formatAuditEntry(&e); !strings.Contains(got, "grafana@acme") || !strings.Contains(got, "denied wrong_role (7 before it were left out)  (from –, – by i-1)") {
		t.Error(got)
	}
}

// TestAuditFileIsReopenedOnHangup: after a rotation, SIGHUP lets the entries go to a new file.
func TestAuditFileIsReopenedOnHangup(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "audit.log")
	signals := make(chan os.Signal)
	s := startServerWithSignals(t, signals, "--config", writeConfig(t, "[audit]\noutput = \""+file+"\"\n"))
	await := func(node string) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); ; {
			body, err := os.ReadFile(file)
			if bytes.Contains(body, []byte(`"object":"node/`+node+`"`)) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("the file lacks %s: %v\n%s", node, err, body)
			}
		}
	}
	s.registerNode(t, "n1", 1)
	await("n1")
	if err := os.Rename(file, file+".1"); err != nil {
		t.Fatal(err)
	}
	signals <- syscall.SIGHUP
	signals <- syscall.SIGHUP // accepted when the first was handled
	s.registerNode(t, "n2", 1)
	await("n2")
	if body, err := os.ReadFile(file + ".1"); err != nil || bytes.Contains(body, []byte("n2")) {
		t.Errorf("the rotated file: %v\n%s", err, body)
	}
}

func TestAuditFileMustBeUsable(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "missing", "audit.log")
	got := runCommandEnv(cancelledContext(), []string{"LINGUA_AUDIT_OUTPUT=" + file}, "serve", "--listen", "127.0.0.1:0")
	if got.code == exitOK || !strings.Contains(got.err, "audit.output") {
		t.Errorf("exit %d\n%s", got.code, got.err)
	}
}
