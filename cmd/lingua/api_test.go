package main

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// TestServerFlag takes an address in every form that people write, from the flag or from LINGUA_URL.
func TestServerFlag(t *testing.T) {
	t.Parallel()
	s := serve(t)
	bare := strings.TrimPrefix(s.url, "http://")
	for name, c := range map[string]struct{ environ, args []string }{
		"URL":                     {args: []string{"--server", s.url}},
		"URL with a slash":        {args: []string{"--server", s.url + "/"}},
		"no scheme":               {args: []string{"--server", bare}},
		"no scheme, with a slash": {args: []string{"--server", bare + "/"}},
		"name":                    {args: []string{"--server", strings.Replace(bare, "127.0.0.1", "localhost", 1)}},
		"environment":             {environ: []string{"LINGUA_URL=" + s.url}},
		"environment, no scheme":  {environ: []string{"LINGUA_URL=" + bare}},
		"flag wins":               {environ: []string{"LINGUA_URL=" + nobody(t)}, args: []string{"--server", s.url}},
	} {
		got := callIn(t.Context(), c.environ, append([]string{"nodes"}, c.args...)...)
		if got.code != exitOK || got.out != "no nodes are registered\n" {
			t.Errorf("%s: exit %d\n%s%s", name, got.code, got.out, got.err)
		}
	}
}

// TestServerVariable: an empty one is not set, a wrong one is named, and a password in it is not shown.
func TestServerVariable(t *testing.T) {
	t.Parallel()
	flag := &kong.Flag{Value: &kong.Value{Name: "server"}}
	if got, err := fromEnvironment([]string{"LINGUA_URL="})(nil, nil, flag); got != nil || err != nil {
		t.Errorf("empty: %v %v", got, err)
	}
	got := callIn(t.Context(), []string{"LINGUA_URL=nonsense"}, "nodes")
	if got.code != exitUsage || !strings.Contains(got.err, "LINGUA_URL") {
		t.Errorf("exit %d\n%s", got.code, got.err)
	}
	got = callIn(t.Context(), []string{"LINGUA_URL=" + strings.Replace(nobody(t), "://", "://me:hunter2@", 1)}, "nodes")
	if got.code != exitUnreachable || strings.Contains(got.err, "hunter2") {
		t.Errorf("exit %d\n%s", got.code, got.err)
	}
}
