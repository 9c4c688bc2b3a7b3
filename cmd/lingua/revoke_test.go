package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/wire"
)

// TestRevoke checks the output of every command that revokes, lists or lifts, as text and as JSON.
func TestRevoke(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	lingua := func(args ...string) result { return runCommand(t, append(args, "--server", s.url)...) }
	if got := lingua("revoke", "list"); got.code != exitOK || got.out != "nothing is revoked\n" {
		t.Errorf("exit %d\n%s%s", got.code, got.out, got.err)
	}
	for _, c := range []struct{ args, want, warning string }{
		{"key ops", "key~ops is revoked: requests with the key", "no key of this name"},
		{"kid 2026 --before 2026-01-31T12:00:00Z", "kid~2026 is revoked: its tokens", "no signer with this kid"},
		{"tenant acme --reason unpaid", "tenant~acme is revoked: its keys and tokens", ""},
		{"session room-1 --tenant acme", "session~acme~room-1 is revoked: its tokens", ""},
		{"node gpu-1", "node~gpu-1 is revoked: it is removed", ""},
	} {
		got := lingua(append([]string{"revoke"}, strings.Fields(c.args)...)...)
		if got.code != exitOK || !strings.HasPrefix(got.out, c.want) || (c.warning == "") != (got.err == "") || !strings.Contains(got.err, c.warning) {
			t.Errorf("lingua revoke %s: exit %d\n%s%s", c.args, got.code, got.out, got.err)
		}
	}
	times := regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
	want := []string{
		"ID ISSUED BEFORE ADDED BY DROPPED REASON", "key~ops TIME now – when lifted –", "kid~2026 TIME now – TIME –", "node~gpu-1 now – when lifted –",
		"session~acme~room-1 TIME now – TIME –", "tenant~acme TIME now – when lifted unpaid",
	}
	list := times.ReplaceAllString(lingua("revoke", "list").out, "TIME")
	got := rows(regexp.MustCompile(`\d+s ago`).ReplaceAllString(list, "now"))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lingua revoke list: (-want +got)\n%s", diff)
	}
	if got := lingua("revoke", "list", "--limit", "2"); !strings.Contains(got.out, "there are more") {
		t.Errorf("%s%s", got.out, got.err)
	}
	if got := lingua("revoke", "lift", "node~gpu-1"); got.code != exitOK || got.out != "node~gpu-1 is not revoked any more\n" {
		t.Errorf("exit %d\n%s%s", got.code, got.out, got.err)
	}
	if got := lingua("revoke", "lift", "node~gpu-1"); got.code != exitFailed || !strings.Contains(got.err, "lingua revoke list") {
		t.Errorf("exit %d\n%s%s", got.code, got.out, got.err)
	}
	for line, into := range map[string]any{
		"revoke list": new(wire.RevocationList), "revoke node gpu-2": new(wire.Revocation), "revoke lift key~ops": new(wire.Revocation),
		"sessions list": new(wire.SessionList), "sessions end room-1 --tenant acme": new(wire.SessionTerminated),
	} {
		got := lingua(append(strings.Fields(line), "--json")...)
		if err := json.Unmarshal([]byte(got.out), into); got.code != exitOK || err != nil {
			t.Errorf("lingua %s --json: exit %d, %v\n%s%s", line, got.code, err, got.out, got.err)
		}
	}
	for _, line := range []string{"revoke", "revoke key", "revoke key ops --before yesterday", "revoke node n --before 2026-01-31T12:00:00Z", "revoke list --limit 0", "sessions end"} {
		if got := lingua(strings.Fields(line)...); got.code != exitUsage {
			t.Errorf("lingua %s: exit %d\n%s%s", line, got.code, got.out, got.err)
		}
	}
}

// TestRevocationsAreExported: what one scheduler has revoked is revoked by another after an import of the export, in the same words.
func TestRevocationsAreExported(t *testing.T) {
	t.Parallel()
	old, fresh := startServer(t), startServer(t)
	for _, line := range []string{
		"key ops --before 2026-01-31T12:00:00Z", "kid 2026 --reason lost", "tenant acme", "session room-1 --tenant acme", "node gpu-1",
	} {
		if got := runCommand(t, append(strings.Fields("revoke "+line), "--server", old.url)...); got.code != exitOK {
			t.Fatalf("lingua revoke %s: exit %d\n%s", line, got.code, got.err)
		}
	}
	exported := runCommand(t, "revoke", "export", "--server", old.url)
	file := filepath.Join(t.TempDir(), "revocations.jsonl")
	if err := os.WriteFile(file, []byte(exported.out), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second one changes nothing
		if got := runCommand(t, "revoke", "import", file, "--server", fresh.url); got.out != "5 revocations imported\n" {
			t.Fatalf("exit %d\n%s%s", got.code, got.out, got.err)
		}
	}
	if again := runCommand(t, "revoke", "export", "--server", fresh.url); again.out != exported.out {
		t.Errorf("the export of the second scheduler (-first +second):\n%s", cmp.Diff(exported.out, again.out))
	}
	if err := os.WriteFile(file, []byte(exported.out+`{"kay": "x"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := runCommand(t, "revoke", "import", file, "--server", fresh.url); got.code != exitFailed || !strings.Contains(got.err, "line 6 is not one of lingua revoke export") {
		t.Errorf("exit %d\n%s%s", got.code, got.out, got.err)
	}
}

// TestSessionCommands lists a running session and ends it.
func TestSessionCommands(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	lingua := func(args ...string) result { return runCommand(t, append(args, "--server", s.url)...) }
	if got := lingua("sessions", "list"); got.code != exitOK || got.out != "no sessions\n" {
		t.Errorf("exit %d\n%s%s", got.code, got.out, got.err)
	}
	closed := s.startSession(t, "room-1")
	got := rows(lingua("sessions", "list").out)
	row := regexp.MustCompile(`^room-1 – en↔zh yes no 0 0 – – 0 (now|\d+s ago) – 127\.0\.0\.1 \S+$`)
	if len(got) != 2 || got[0] != "SESSION TENANT LANGUAGES CONNECTED SPEAKING UTTERANCES PENDING LAG MS P95 MS RECONNECTS STARTED KEY REMOTE INSTANCE" || !row.MatchString(got[1]) {
		t.Errorf("%q", got)
	}
	if got := rows(lingua("sessions", "list", "--search", "oom", "--language", "zh", "--connected", "true").out); len(got) != 2 {
		t.Errorf("%q", got)
	}
	if got := lingua("sessions", "list", "--connected", "maybe"); got.code == exitOK {
		t.Errorf("--connected maybe: %s", got.out)
	}
	if got := lingua("sessions", "list", "--tenant", "acme"); got.out != "no sessions\n" {
		t.Errorf("%s%s", got.out, got.err)
	}
	if got := lingua("sessions", "end", "room-1"); got.code != exitOK || got.out != "room-1: the session is ended, and its tokens are revoked\n" {
		t.Errorf("exit %d\n%s%s", got.code, got.out, got.err)
	}
	if code := <-closed; code != wire.CloseEnded {
		t.Errorf("its connection was closed with %d", code)
	}
	if got := lingua("sessions", "end", "room-2", "--tenant", "acme"); got.code != exitOK || got.out != "acme/room-2: no such session is running, and its tokens are revoked\n" {
		t.Errorf("exit %d\n%s%s", got.code, got.out, got.err)
	}
}
