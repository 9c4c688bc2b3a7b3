package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// apiCommands are the commands that call the API, with their required arguments.
var apiCommands = map[string][]string{
	"nodes": nil, "jobs": nil, "directions": nil, "explain": {"--from", "en", "--to", "zh"}, "drain": {"n1"}, "resume": {"n1"}, "metrics": nil,
}

// TestHelp checks the help of the program and of each command.
func TestHelp(t *testing.T) {
	t.Parallel()
	top := runCommand(t, "--help")
	for command, want := range map[string]string{
		"":                 "LINGUA_URL",
		"serve":            "--insecure",
		"demo":             "--duration",
		"talk":             "--from",
		"node":             "--latency",
		"modelhub":         "--fault",
		"bench":            "--rate",
		"nodes":            "nodes remove",
		"nodes list":       "LINGUA_URL",
		"nodes probe":      "--timeout",
		"nodes remove":     "<id>",
		"jobs":             "--state",
		"directions":       "--json",
		"metrics":          "--json",
		"explain":          "--from",
		"drain":            "<id>",
		"resume":           "<id>",
		"config":           "reference",
		"config check":     "<file>",
		"config reference": "every key",
		"version":          "--json",
	} {
		for _, flag := range []string{"--help", "-h"} {
			got := runCommand(t, append(strings.Fields(command), flag)...)
			if got.code != exitOK || !strings.Contains(got.out, "Usage: lingua "+command) || !strings.Contains(got.out, want) || got.err != "" {
				t.Errorf("lingua %s %s: exit %d, want usage and %q\n%s%s", command, flag, got.code, want, got.out, got.err)
			}
		}
		if name, _, _ := strings.Cut(command, " "); !strings.Contains(top.out, name) {
			t.Errorf("lingua --help does not name %s", name)
		}
	}
}

// TestInvalidUsage checks that a wrong command line exits with 2 and prints, to stderr only, the error and how to
// correct it.
func TestInvalidUsage(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		"bogus":                             {"bogus", "Try: lingua --help\n"},
		"--nope":                            {"--nope", "Try: lingua --help\n"},
		"serve --nope":                      {"--nope", "Try: lingua serve --help\n"},
		"demo --nope":                       {"--nope", "Try: lingua demo --help\n"},
		"nodes --nope":                      {"--nope", "Try: lingua nodes --help\n"},
		"nodes a b":                         {"b", "Try: lingua nodes list --help\n"},
		"jobs --limit many":                 {"--limit", "Try: lingua jobs --help\n"},
		"jobs --limit 0":                    {"--limit", "must be 1 or more", "Try: lingua jobs --help\n"},
		"nodes --limit 0":                   {"--limit", "must be 1 or more", "Try: lingua nodes list --help\n"},
		"directions --limit -1":             {"--limit", "Try: lingua directions --help\n"},
		"jobs --state lost":                 {"--state", "LOST", "DISPATCHED, ACKED, RETRYING, DONE, FAILED, CANCELLED", "Try: lingua jobs --help\n"},
		"explain":                           {"--from", "--to", "Try: lingua explain --help\n"},
		"drain":                             {"<id>", "Try: lingua drain --help\n"},
		"config":                            {"check", "Try: lingua config --help\n"},
		"config check":                      {"<file>", "Try: lingua config check --help\n"},
		"version --nope":                    {"--nope", "Try: lingua version --help\n"},
		"nodes --server nonsense":           {"--server", "http://127.0.0.1:5010"},
		"nodes --server localhost:http":     {"--server", "http://127.0.0.1:5010"},
		"nodes --server ftp://x":            {"--server", "http://127.0.0.1:5010"},
		"node --sim --server :1,nonsense":   {"--server", "nonsense", "http://127.0.0.1:5010"},
		"serve --listen nonsense":           {"--listen", "127.0.0.1:5010"},
		"serve --listen 127.0.0.1:http":     {"--listen", "port"},
		"serve --listen 127.0.0.1:99999":    {"--listen", "65535"},
		"serve --store redis":               {"--store", "memory"},
		"serve --log-level loud":            {"--log-level", "loud", "debug, info, warn or error"},
		"serve --log-format xml":            {"--log-format", "xml", "text or json"},
		"serve --config /does/not/exist":    {"/does/not/exist", "config file"},
		"demo --conversations 99999":        {"--conversations", "10000", "Try: lingua demo --help\n"},
		"demo --duration soon":              {"--duration"},
		"demo --duration -1s":               {"--duration", "Try: lingua demo --help\n"},
		"demo --listen 0.0.0.0:5010":        {"--listen: 0.0.0.0:5010 listens on every interface", "--listen 127.0.0.1:5010", "--insecure"},
		"demo --listen 192.0.2.1:0":         {"--listen: 192.0.2.1:0 is not loopback", "--listen 127.0.0.1:0", "--insecure"},
		"serve --listen 0.0.0.0:0":          {"--listen: 0.0.0.0:0 listens on every interface", "--listen 127.0.0.1:0", "--insecure"},
		"serve --listen [::]:0":             {"--listen: [::]:0 listens on every interface", "--listen 127.0.0.1:0", "--insecure"},
		"serve --listen :5011":              {"--listen: :5011 listens on every interface", "--listen 127.0.0.1:5011", "--insecure"},
		"serve --listen 192.0.2.1:0":        {"--listen: 192.0.2.1:0 is not loopback", "--listen 127.0.0.1:0", "--insecure"},
		"serve --listen gpu-7.internal:80":  {"--listen: gpu-7.internal:80 is not loopback", "--listen 127.0.0.1:80", "--insecure"},
		"config check /does/not/exist.toml": {"/does/not/exist.toml"},
		"bench --rate 0":                    {"--rate", "between 0.01 and 100000", "Try: lingua bench --help\n"},
		"bench --rate NaN":                  {"--rate", "Try: lingua bench --help\n"},
		"bench --mode smoke":                {"--mode", "http", "sockets"},
		"bench --duration 0s":               {"--duration", "100ms", "Try: lingua bench --help\n"},
		"bench --timeout 1h":                {"--timeout", "10m", "Try: lingua bench --help\n"},
		"bench --slots 0":                   {"--slots", "Try: lingua bench --help\n"},
		"bench --nodes 0":                   {"--langs: is required with --nodes 0", "lingua directions", "Try: lingua bench --help\n"},
		"bench --langs en":                  {"--langs", "en-zh", "Try: lingua bench --help\n"},
		"bench --langs en-zh-TW":            {"--langs", "en-US:zh-TW", "Try: lingua bench --help\n"},
		"bench --max-errors many":           {"--max-errors", "0.1%", "Try: lingua bench --help\n"},
		"bench --max-errors 101%":           {"--max-errors", "Try: lingua bench --help\n"},
		"bench --name a/b":                  {"--name", "Try: lingua bench --help\n"},
		"bench --mode sockets --sessions 1": {"--sessions", "23 sessions or more", "Try: lingua bench --help\n"},
		"bench --url nonsense":              {"nonsense", "http://127.0.0.1:5010"},
	} {
		got := runCommandEnv(cancelledContext(), nil, strings.Fields(line)...) // a command that starts by mistake ends at once
		if got.code != exitUsage || got.out != "" {
			t.Errorf("lingua %s: want exit %d and nothing on stdout, got %d %q", line, exitUsage, got.code, got.out)
		}
		for _, word := range want {
			if !strings.Contains(got.err, word) {
				t.Errorf("lingua %s: want %q in\n%s", line, word, got.err)
			}
		}
		if !strings.HasPrefix(got.err, "lingua: ") || strings.Count(got.err, "lingua: ") != 1 {
			t.Errorf("lingua %s: want one message\n%s", line, got.err)
		}
	}
}

// TestSuggestedFlagsExist checks that the flags which an error suggests are accepted.
func TestSuggestedFlagsExist(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"serve", "demo"} {
		got := runCommandEnv(cancelledContext(), nil, command, "--listen", "0.0.0.0:0", "--insecure")
		if got.code != exitOK {
			t.Errorf("lingua %s: exit %d\n%s", command, got.code, got.err)
		}
	}
}

// TestNoArgumentsPrintHelp checks that the program without arguments prints its help.
func TestNoArgumentsPrintHelp(t *testing.T) {
	t.Parallel()
	got, help := runCommand(t), runCommand(t, "--help")
	if got != help || got.code != exitOK || got.err != "" {
		t.Errorf("exit %d, want the help\n%s%s", got.code, got.out, got.err)
	}
}

// TestUnreachableScheduler checks exit code 3 and the advice to start a scheduler.
func TestUnreachableScheduler(t *testing.T) {
	t.Parallel()
	url := unusedURL(t)
	for command, args := range apiCommands {
		got := runCommand(t, append([]string{command, "--server", url}, args...)...)
		if got.code != exitUnreachable || got.out != "" || !strings.Contains(got.err, url) || !strings.Contains(got.err, "lingua serve") {
			t.Errorf("lingua %s: exit %d\n%s%s", command, got.code, got.out, got.err)
		}
	}
}

// TestResponseOfAnotherProgram checks exit code 1 if the server is not a scheduler.
func TestResponseOfAnotherProgram(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"not found": http.NotFound,
		"a page":    func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"other errors": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"message":"no"}`, http.StatusInternalServerError)
		},
		"cut off": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "99")
			_, _ = w.Write([]byte("{"))
		},
		"no JSON": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
	} {
		srv := httptest.NewServer(handler)
		for command, args := range apiCommands {
			got := runCommand(t, append([]string{command, "--server", srv.URL}, args...)...)
			if code := map[bool]int{true: exitUnreachable, false: exitFailed}[name == "cut off"]; got.code != code || got.out != "" || !strings.Contains(got.err, srv.URL) {
				t.Errorf("lingua %s and %s: exit %d\n%s%s", command, name, got.code, got.out, got.err)
			}
		}
		srv.Close()
	}
}
