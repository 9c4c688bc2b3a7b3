package main

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/lab"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
)

// TestReadmeTour runs the commands of the tour in README.md against the fleet of the demo.
func TestReadmeTour(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	tour := regexp.MustCompile("(?s)## Try it.*?```bash\n(.*?)```").FindStringSubmatch(string(page))
	if tour == nil {
		t.Fatal("README.md has no tour")
	}
	url := startDemoFleet(t)
	steps := 0
	for line := range strings.Lines(tour[1]) {
		words := shellWords(strings.ReplaceAll(strings.TrimSpace(line), "http://127.0.0.1:5010", url))
		switch {
		case len(words) == 0 || words[0] == "#":
		case words[0] == "curl":
			steps++
			curl(t, words[1:])
		case len(words) > 3 && words[0] == "go" && words[1] == "run":
			steps++
			var out, errs bytes.Buffer
			args := append(words[3:], "--server", url)
			if code := execute(t.Context(), args, streams{out: &out, err: &errs}); code != exitOK || out.Len() == 0 {
				t.Errorf("lingua %v: exit %d\n%s%s", args, code, out.String(), errs.String())
			}
		default:
			t.Errorf("the tour has a step that this test cannot run: %s", line)
		}
	}
	if steps < 8 {
		t.Errorf("the tour has only %d steps", steps)
	}
}

// startDemoFleet runs a scheduler with the demo's nodes until the test ends.
func startDemoFleet(t *testing.T) string {
	t.Helper()
	cfg := config.Default()
	cfg.Server.Port, cfg.Server.ShutdownSeconds = 0, 3
	cfg.Scheduler.Sessions.WaitMS = 500
	s, err := scheduler.New(t.Context(), cfg, version(), slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	served := make(chan error, 1)
	go func() { served <- s.Run(ctx, l) }()
	url := "http://" + l.Addr().String()
	nodes := lab.DemoNodes()
	fleet, stopFleet := startFleet(ctx, url, nodes)
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		stopFleet()
		fleet.Wait()
	})
	peer := lab.NewAPI(url)
	defer peer.Close()
	if err := lab.WaitNodes(t.Context(), peer, len(nodes)); err != nil {
		t.Fatal(err)
	}
	return url
}

// shellWords splits a command line at spaces. Single quotes group words.
func shellWords(line string) []string {
	var words []string
	for _, m := range regexp.MustCompile(`'([^']*)'|(\S+)`).FindAllStringSubmatch(line, -1) {
		words = append(words, m[1]+m[2])
	}
	return words
}

// curl runs a curl command of the tour and expects status 200.
func curl(t *testing.T, args []string) {
	t.Helper()
	method, url, body := http.MethodGet, "", ""
	header := make(http.Header)
	for i := 0; i < len(args); i++ {
		switch args[i] {
		case "-s":
		case "-H":
			i++
			name, value, _ := strings.Cut(args[i], ": ")
			header.Set(name, value)
		case "-d":
			i++
			method, body = http.MethodPost, args[i]
		default:
			url = args[i]
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		var response bytes.Buffer
		_, _ = response.ReadFrom(resp.Body)
		t.Errorf("curl %s: %s %s", url, resp.Status, response.String())
	}
}
