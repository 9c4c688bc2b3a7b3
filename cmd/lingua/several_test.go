package main

import (
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

// waysToName are the ways in which several addresses can be named.
func waysToName(urls ...string) map[string]struct{ environ, args []string } {
	var again []string
	for _, u := range urls {
		again = append(again, "--server", u)
	}
	return map[string]struct{ environ, args []string }{
		"with commas":        {args: []string{"--server", strings.Join(urls, ",")}},
		"again":              {args: again},
		"in the environment": {environ: []string{"LINGUA_URL=" + strings.Join(urls, ",")}},
	}
}

// TestTalkKnowsSeveral: of the addresses it is given it takes one at which somebody answers.
func TestTalkKnowsSeveral(t *testing.T) {
	t.Parallel()
	url := startDemoFleet(t)
	for name, way := range waysToName(nobody(t), url) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := callIn(t.Context(), way.environ, slices.Concat([]string{"talk", wavFile(t, 300, true), "--from", "en", "--to", "es"}, way.args)...)
			if got.code != exitOK || !strings.Contains(got.out, "results: 1") {
				t.Errorf("exit %d\n%s%s", got.code, got.out, got.err)
			}
		})
	}
	one, other := nobody(t), nobody(t)
	got := call(t, "talk", wavFile(t, 300, true), "--from", "en", "--to", "es", "--server", one, "--server", other)
	if got.code != exitUnreachable || !strings.Contains(got.err, one+", "+other) {
		t.Errorf("want exit %d and both named, got %d\n%s", exitUnreachable, got.code, got.err)
	}
}

// TestNodeKnowsSeveral: so does a node, and the list of nodes says with which instance it is.
func TestNodeKnowsSeveral(t *testing.T) {
	t.Parallel()
	s := serve(t)
	var instances wire.InstanceList
	if err := json.Unmarshal([]byte(call(t, "instances", "--server", s.url, "--json").out), &instances); err != nil || len(instances.Instances) != 1 {
		t.Fatalf("%+v %v", instances, err)
	}
	for name, way := range waysToName(nobody(t), s.url) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, leave := context.WithCancel(t.Context())
			id := "sim-" + strings.ReplaceAll(name, " ", "-")
			code := make(chan int, 1)
			go func() {
				code <- run(ctx, append([]string{"node", "--sim", "--id", id}, way.args...), streams{out: io.Discard, err: io.Discard, environ: way.environ})
			}()
			with := regexp.MustCompile(`(?m)^` + id + ` ready 0 0 0 4 .* ` + instances.Instances[0].Incarnation + ` now$`)
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			late := time.After(20 * time.Second)
			for listed := false; !listed; {
				got := call(t, "nodes", id, "--server", s.url)
				listed = with.MatchString(strings.Join(rows(got.out), "\n"))
				select {
				case c := <-code:
					t.Fatalf("the node ended with %d", c)
				case <-late:
					t.Fatalf("the node is not listed as connected with %s:\n%s%s", instances.Instances[0].Incarnation, got.out, got.err)
				case <-tick.C:
				}
			}
			leave()
			<-code
		})
	}
}
