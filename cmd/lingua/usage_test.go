package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// asking are the commands that ask a running scheduler, each with what it needs.
var asking = map[string][]string{
	"nodes": nil, "jobs": nil, "pools": nil, "explain": {"--from", "en", "--to", "zh"}, "drain": {"n1"}, "resume": {"n1"},
}

// TestHelp is given for the program and for each of its commands.
func TestHelp(t *testing.T) {
	t.Parallel()
	top := call(t, "--help")
	for command, says := range map[string]string{
		"":                 "Exit codes: 0 done",
		"serve":            "--insecure",
		"demo":             "--duration",
		"nodes":            "--server",
		"jobs":             "--state",
		"pools":            "--json",
		"explain":          "--from",
		"drain":            "<id>",
		"resume":           "<id>",
		"config":           "reference",
		"config check":     "<file>",
		"config reference": "every key",
		"version":          "--json",
	} {
		for _, flag := range []string{"--help", "-h"} {
			got := call(t, append(strings.Fields(command), flag)...)
			if got.code != exitOK || !strings.Contains(got.out, "Usage: lingua "+command) || !strings.Contains(got.out, says) || got.err != "" {
				t.Errorf("lingua %s %s: exit %d, want usage and %q\n%s%s", command, flag, got.code, says, got.out, got.err)
			}
		}
		if name, _, _ := strings.Cut(command, " "); !strings.Contains(top.out, name) {
			t.Errorf("lingua --help does not name %s", name)
		}
	}
}

// TestWrongUsage exits with 2, says what is wrong, and where to read on or what to do. Nothing goes to where
// scripts read.
func TestWrongUsage(t *testing.T) {
	t.Parallel()
	for line, says := range map[string][]string{
		"":                                  {"serve", "Try: lingua --help"},
		"bogus":                             {"bogus", "Try: lingua --help"},
		"--nope":                            {"--nope", "Try: lingua --help"},
		"serve --nope":                      {"--nope", "Try: lingua --help"},
		"demo --nope":                       {"--nope", "Try: lingua --help"},
		"nodes --nope":                      {"--nope", "Try: lingua --help"},
		"nodes a b":                         {"b", "Try: lingua --help"},
		"jobs --limit many":                 {"--limit", "Try: lingua --help"},
		"explain":                           {"--from", "--to", "Try: lingua --help"},
		"drain":                             {"<id>", "Try: lingua --help"},
		"config":                            {"check", "Try: lingua --help"},
		"config check":                      {"<file>", "Try: lingua --help"},
		"version --nope":                    {"--nope", "Try: lingua --help"},
		"nodes --server nonsense":           {"--server", "http://127.0.0.1:5010"},
		"nodes --server ftp://x":            {"--server", "http://127.0.0.1:5010"},
		"serve --listen nonsense":           {"--listen", "127.0.0.1:5010"},
		"serve --listen 127.0.0.1:http":     {"--listen", "port"},
		"serve --listen 127.0.0.1:99999":    {"server.port", "65535"},
		"serve --store redis":               {"store", "memory"},
		"serve --log-level loud":            {"loud", "debug, info, warn or error"},
		"serve --log-format xml":            {"xml", "text or json"},
		"serve --config /does/not/exist":    {"/does/not/exist", "config file"},
		"demo --conversations 99999":        {"--conversations", "10000"},
		"demo --duration soon":              {"--duration"},
		"demo --listen 192.0.2.1:0":         {"127.0.0.1"},
		"serve --listen 0.0.0.0:0":          {"loopback", "127.0.0.1", "--insecure"},
		"serve --listen [::]:0":             {"loopback", "127.0.0.1", "--insecure"},
		"serve --listen 192.0.2.1:0":        {"loopback", "127.0.0.1", "--insecure"},
		"serve --listen :0":                 {"loopback", "127.0.0.1", "--insecure"},
		"serve --listen gpu-7.internal:80":  {"loopback", "127.0.0.1", "--insecure"},
		"config check /does/not/exist.toml": {"/does/not/exist.toml"},
	} {
		got := callIn(stopped(), nil, strings.Fields(line)...) // what should not start at all ends at once if it does
		if got.code != exitUsage || got.out != "" {
			t.Errorf("lingua %s: want exit %d and nothing on stdout, got %d %q", line, exitUsage, got.code, got.out)
		}
		for _, word := range says {
			if !strings.Contains(got.err, word) {
				t.Errorf("lingua %s: want %q in\n%s", line, word, got.err)
			}
		}
		if !strings.HasPrefix(got.err, "lingua: ") || strings.Count(got.err, "lingua: ") != 1 {
			t.Errorf("lingua %s: want one message\n%s", line, got.err)
		}
	}
}

// TestUnreachable exits with 3 and says how to get a scheduler.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	url := nobody(t)
	for command, args := range asking {
		got := call(t, append([]string{command, "--server", url}, args...)...)
		if got.code != exitUnreachable || got.out != "" || !strings.Contains(got.err, url) || !strings.Contains(got.err, "lingua serve") {
			t.Errorf("lingua %s: exit %d\n%s%s", command, got.code, got.out, got.err)
		}
	}
}

// TestAnotherProgram exits with 1 when whoever answers is no scheduler.
func TestAnotherProgram(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"not found": http.NotFound,
		"a page":    func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"other errors": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"message":"no"}`, http.StatusInternalServerError)
		},
		"cut off": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "99")
			_, _ = w.Write([]byte("{"))
		},
		"no JSON at it": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
	} {
		srv := httptest.NewServer(answer)
		for command, args := range asking {
			got := call(t, append([]string{command, "--server", srv.URL}, args...)...)
			if want := map[bool]int{true: exitUnreachable, false: exitFailed}[name == "cut off"]; got.code != want || got.out != "" || !strings.Contains(got.err, srv.URL) {
				t.Errorf("lingua %s and %s: exit %d\n%s%s", command, name, got.code, got.out, got.err)
			}
		}
		srv.Close()
	}
}
