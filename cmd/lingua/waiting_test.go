package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/wire"
)

// startWaiting dispatches a request of a tenant that waits until the test ends, unless it gets a slot.
func (s *testServer) startWaiting(t *testing.T, tenant string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	body := fmt.Sprintf(`{"session_id":"talk","tenant_id":%q,"src_lang":"en","tgt_lang":"zh","options":{"max_wait_ms":60000}}`, tenant)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/dispatch/f2f", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	done := make(chan struct{})
	go func() {
		defer close(done)
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

// TestWaitingCommand: the tenants that wait with their shares, and the requests.
func TestWaitingCommand(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	if got := runCommand(t, "waiting", "--server", s.url); got.code != exitOK || got.out != "nobody waits for a slot\n" {
		t.Errorf("exit %d: %q %s", got.code, got.out, got.err)
	}
	s.registerNode(t, "n1", 1)
	s.post(t, "/v1/dispatch/f2f", `{"session_id":"talk","src_lang":"en","tgt_lang":"zh"}`)
	s.startWaiting(t, "acme")
	s.startWaiting(t, "")
	var list wire.WaitingList
	for deadline := time.Now().Add(20 * time.Second); list.Total != 2; time.Sleep(20 * time.Millisecond) {
		got := runCommand(t, "waiting", "--json", "--server", s.url)
		if err := json.Unmarshal([]byte(got.out), &list); got.code != exitOK || err != nil || time.Now().After(deadline) {
			t.Fatalf("exit %d: %v %s %s", got.code, err, got.out, got.err)
		}
	}
	got := runCommand(t, "waiting", "--pool=", "--server", s.url)
	lines := rows(got.out)
	if got.code != exitOK || len(lines) != 9 {
		t.Fatalf("exit %d: %s\n%s", got.code, got.err, got.out)
	}
	head := append(lines[:3:3], lines[5:7]...)
	want := []string{"waiting: 2", "", "TENANT POOL WAITING OLDEST WEIGHT GRANTED ENTITLED", "", "TENANT POOL FOR WAITED PLACE ESTIMATE GIVES UP IN INSTANCE JOB"}
	if diff := cmp.Diff(want, head); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if !strings.HasPrefix(lines[3]+lines[4], "(none) (none) 1 ") || !strings.HasSuffix(lines[4], " 1 0 0.0") || !strings.Contains(got.out, "acme") || !strings.Contains(lines[7], "en→zh") {
		t.Errorf("%s", got.out)
	}
	if got := runCommand(t, "waiting", "--limit", "1", "--tenant", "acme", "--server", s.url); !strings.HasPrefix(got.out, "waiting: 1\n") || strings.Contains(got.out, "more") {
		t.Errorf("%s", got.out)
	}
	if got := runCommand(t, "waiting", "--limit", "1", "--server", s.url); !strings.Contains(got.out, "(there are more: --limit)") {
		t.Errorf("%s", got.out)
	}
	got = runCommand(t, "explain", "--from", "en", "--to", "zh", "--max-wait", "90s", "--tenant", "acme", "--server", s.url)
	if got.code != exitFailed || !strings.Contains(got.err, "options.max_wait_ms") {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
	got = runCommand(t, "explain", "--from", "en", "--to", "zh", "--max-wait", "60s", "--tenant", "acme", "--server", s.url)
	want = []string{
		"en→zh: ALL_CANDIDATES_FULL_OR_FAILED. No node that supports semantic(en) + nmt(en->zh) can take the job now: FULL 1.", "FULL 1",
		"With options.max_wait_ms it would wait as number 2 of its tenant; how long is not known. Of other tenants, 1 wait for the same.",
		"", "NODE IN FLIGHT VERDICT", "n1 1 of 1 FULL",
	}
	if diff := cmp.Diff(want, rows(got.out)); diff != "" {
		t.Errorf("explain (-want +got)\n%s", diff)
	}
	for line, code := range map[string]int{"--limit 0": exitUsage, "--limit 1001": exitUsage, "--pool unknown": exitFailed} {
		if got := runCommand(t, append([]string{"waiting", "--server", s.url}, strings.Fields(line)...)...); got.code != code {
			t.Errorf("%s: exit %d: %s", line, got.code, got.err)
		}
	}
}
