package main

import (
	"strings"
	"testing"
)

// TestCancel cancels a job by its id, and others by filters, which are counted first.
func TestCancel(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.registerNode(t, "n1", 9)
	dispatch := func(session string) string {
		return s.post(t, "/v1/dispatch/f2f", `{"session_id":%q,"src_lang":"en","tgt_lang":"zh"}`, session)["job_id"].(string)
	}
	one := dispatch("a")
	for range 3 {
		dispatch("b")
	}
	for _, c := range []struct{ args, want string }{
		{"cancel " + one, one + " was cancelled"},
		{"cancel --session b", "3 open jobs match; nothing was cancelled to cancel them, add --yes"},
		{"cancel --session b --dry-run --yes", "3 open jobs match; nothing was cancelled"},
		{"cancel --session b --state acked --yes", "0 were cancelled, 0 had ended before"},
		{"cancel --session b --yes", "3 were cancelled, 0 had ended before"},
		{"cancel --all", "0 open jobs match; nothing was cancelled to cancel them, add --yes"},
	} {
		got := runCommand(t, append(strings.Fields(c.args), "--server", s.url)...)
		if text := strings.Join(strings.Fields(got.out), " "); got.code != exitOK || text != c.want {
			t.Errorf("lingua %s: exit %d, %q, want %q %s", c.args, got.code, text, c.want, got.err)
		}
	}
	for _, args := range []string{"cancel", "cancel x --all", "cancel x --node n", "cancel --all --node n", "cancel --state done --yes", "cancel --session b --tenant= --yes"} {
		if got := runCommand(t, append(strings.Fields(args), "--server", s.url)...); got.code == exitOK {
			t.Errorf("lingua %s: %s", args, got.out)
		}
	}
}
