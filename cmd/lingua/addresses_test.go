package main

import (
	"github.com/alecthomas/kong"

	"context"
	"encoding/json"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// addressForms returns the forms in which several addresses can be given.
func addressForms(urls ...string) map[string]struct{ environ, args []string } {
	var repeated []string
	for _, u := range urls {
		repeated = append(repeated, "--server", u)
	}
	return map[string]struct{ environ, args []string }{
		"with commas":        {args: []string{"--server", strings.Join(urls, ",")}},
		"repeated":           {args: repeated},
		"in the environment": {environ: []string{"LINGUA_URL=" + strings.Join(urls, ",")}},
	}
}

// TestTalkWithSeveralAddresses checks that talk connects to an address that responds.
func TestTalkWithSeveralAddresses(t *testing.T) {
	t.Parallel()
	url := startDemoFleet(t)
	for name, form := range addressForms(unusedURL(t), url) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := runCommandEnv(t.Context(), form.environ, slices.Concat([]string{"talk", wavFile(t, 300, true), "--from", "en", "--to", "es"}, form.args)...)
			if got.code != exitOK || !strings.Contains(got.out, "results: 1") {
				t.Errorf("exit %d\n%s%s", got.code, got.out, got.err)
			}
		})
	}
	first, second := unusedURL(t), unusedURL(t)
	got := runCommand(t, "talk", wavFile(t, 300, true), "--from", "en", "--to", "es", "--server", first, "--server", second)
	if got.code != exitUnreachable || !strings.Contains(got.err, first+", "+second) {
		t.Errorf("want exit %d and both addresses, got %d\n%s", exitUnreachable, got.code, got.err)
	}
}

// TestNodeWithSeveralAddresses checks that a node connects to an address that responds, and that the list of nodes shows
// its instance.
func TestNodeWithSeveralAddresses(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	var instances wire.InstanceList
	if err := json.Unmarshal([]byte(runCommand(t, "instances", "--server", s.url, "--json").out), &instances); err != nil || len(instances.Instances) != 1 {
		t.Fatalf("%+v %v", instances, err)
	}
	for name, form := range addressForms(unusedURL(t), s.url) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithCancel(t.Context())
			id := "sim-" + strings.ReplaceAll(name, " ", "-")
			code := make(chan int, 1)
			go func() {
				code <- execute(ctx, append([]string{"node", "--sim", "--id", id}, form.args...), streams{out: io.Discard, err: io.Discard, environ: form.environ})
			}()
			connected := regexp.MustCompile(`(?m)^` + id + ` ready 0 0 0 4 .* ` + instances.Instances[0].Incarnation + ` now$`)
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			deadline := time.After(20 * time.Second)
			for listed := false; !listed; {
				got := runCommand(t, "nodes", id, "--server", s.url)
				listed = connected.MatchString(strings.Join(rows(got.out), "\n"))
				select {
				case c := <-code:
					t.Fatalf("the node ended with %d", c)
				case <-deadline:
					t.Fatalf("the node is not listed as connected to %s:\n%s%s", instances.Instances[0].Incarnation, got.out, got.err)
				case <-tick.C:
				}
			}
			stop()
			<-code
		})
	}
}

// TestServerAddressForms checks every form of an address, from the flag and from LINGUA_URL.
func TestServerAddressForms(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	bare := strings.TrimPrefix(s.url, "http://")
	for name, c := range map[string]struct{ environ, args []string }{
		"URL":                     {args: []string{"--server", s.url}},
		"URL with a slash":        {args: []string{"--server", s.url + "/"}},
		"no scheme":               {args: []string{"--server", bare}},
		"no scheme, with a slash": {args: []string{"--server", bare + "/"}},
		"name":                    {args: []string{"--server", strings.Replace(bare, "127.0.0.1", "localhost", 1)}},
		"environment":             {environ: []string{"LINGUA_URL=" + s.url}},
		"environment, no scheme":  {environ: []string{"LINGUA_URL=" + bare}},
		"flag wins":               {environ: []string{"LINGUA_URL=" + unusedURL(t)}, args: []string{"--server", s.url}},
	} {
		got := runCommandEnv(t.Context(), c.environ, append([]string{"nodes"}, c.args...)...)
		if got.code != exitOK || got.out != "no nodes are registered\n" {
			t.Errorf("%s: exit %d\n%s%s", name, got.code, got.out, got.err)
		}
	}
}

// TestServerVariable checks LINGUA_URL: empty counts as unset, an invalid one is reported by name, and a password in it is
// not printed.
func TestServerVariable(t *testing.T) {
	t.Parallel()
	flag := &kong.Flag{Value: &kong.Value{Name: "server"}}
	if got, err := environmentResolver([]string{"LINGUA_URL="})(nil, nil, flag); got != nil || err != nil {
		t.Errorf("empty: %v %v", got, err)
	}
	got := runCommandEnv(t.Context(), []string{"LINGUA_URL=nonsense"}, "nodes")
	if got.code != exitUsage || !strings.Contains(got.err, "LINGUA_URL") {
		t.Errorf("exit %d\n%s", got.code, got.err)
	}
	got = runCommandEnv(t.Context(), []string{"LINGUA_URL=" + strings.Replace(unusedURL(t), "://", "://me:hunter2@", 1)}, "nodes")
	if got.code != exitUnreachable || strings.Contains(got.err, "hunter2") {
		t.Errorf("exit %d\n%s", got.code, got.err)
	}
}
