package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/lab"
)

// shortBench are the arguments of a run that every machine can make, however busy it is. Once in 10¹⁰ it has no request.
var shortBench = []string{"bench", "--rate", "60", "--warmup", "100ms", "--duration", "400ms", "--nodes", "2", "--slots", "64", "--work", "5ms", "--speech", "200ms", "--max-lag", "1m"}

// TestBench checks the exit code, the progress, the summary and the report of a run in each mode.
func TestBench(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for _, mode := range []string{"http", "sockets"} {
		file := filepath.Join(t.TempDir(), "report.json")
		got := runCommandEnv(t.Context(), []string{"LINGUA_URL=" + s.url + "," + s.url}, append(shortBench, "--mode", mode, "--histogram", "--json", file)...)
		if got.code != exitOK {
			t.Errorf("%s: exit %d\n%s%s", mode, got.code, got.out, got.err)
		}
		for _, pattern := range []string{
			`(?m)^lingua bench ` + regexp.QuoteMeta(release), `(?m)^scheduler  \S+ at ` + s.url, `60 a second \(poisson\) for 0\.4 s`, `2 stand-in nodes with 64 slots each, work 5\.00 ms`,
			`(?m)^done +[1-9]`, `(?m)^failed +0`, `(?m)^ +whole +\d`, `(?m)^ +lag +\d`, `(?m)^whole, \d+ requests$`, `█`, `the run is valid\n$`,
		} {
			if !regexp.MustCompile(pattern).MatchString(got.out) {
				t.Errorf("%s: the summary does not match %s:\n%s", mode, pattern, got.out)
			}
		}
		for _, word := range []string{string(lab.PhaseNodes), "warm-up 0/0 s, done 0, failed 0", string(lab.PhaseEnd)} {
			if !strings.Contains(got.err, word) {
				t.Errorf("%s: the progress does not contain %q:\n%s", mode, word, got.err)
			}
		}
		body, err := os.ReadFile(file)
		var report lab.Report
		if err != nil || json.Unmarshal(body, &report) != nil {
			t.Fatalf("%s: %v\n%s", mode, err, body)
		}
		if !report.Valid || report.Requests.Done == 0 || len(report.Latency.Whole.Histogram) == 0 || len(report.Schedulers) != 2 || string(report.Settings.Mode) != mode {
			t.Errorf("%s: %s", mode, body)
		}
	}
}

// TestBenchJSON checks that --json - prints nothing but JSON to standard output, and the summary to standard error.
func TestBenchJSON(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	got := runCommand(t, append(shortBench, "--url", s.url, "--json", "-")...)
	var report lab.Report
	if err := json.Unmarshal([]byte(got.out), &report); err != nil || got.code != exitOK || !strings.Contains(got.err, "the run is valid") {
		t.Errorf("exit %d %v\n%s\n%s", got.code, err, got.out, got.err)
	}
	if got := runCommand(t, append(shortBench, "--url", s.url, "--json", "/does/not/exist.json")...); got.code != exitUsage || got.out != "" || !strings.Contains(got.err, "/does/not/exist.json") {
		t.Errorf("a path that cannot be written: exit %d\n%s%s", got.code, got.out, got.err)
	}
}

// TestBenchMaxErrors checks that the exit code depends on --max-errors, and that the failures are in the summary.
func TestBenchMaxErrors(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for limit, code := range map[string]int{"0": exitFailed, "100%": exitOK} {
		got := runCommand(t, append(shortBench, "--url", s.url, "--nodes", "1", "--slots", "1", "--work", "1s", "--warmup", "0s", "--arrivals", "even", "--max-errors", limit)...)
		if got.code != code || !strings.Contains(got.out, "× ALL_CANDIDATES_FULL_OR_FAILED") {
			t.Errorf("--max-errors %s: exit %d, want %d\n%s%s", limit, got.code, code, got.out, got.err)
		}
		if code == exitFailed && !regexp.MustCompile(`lingua: \d+ of 24 requests failed, more than --max-errors 0\n$`).MatchString(got.err) {
			t.Errorf("--max-errors %s: %s", limit, got.err)
		}
	}
}

func TestErrorLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit       string
		failed, all int
		want        bool
	}{
		{"0", 0, 0, false}, {"0", 1, 100, true}, {"1", 1, 100, false}, {"1", 2, 100, true}, {"1%", 1, 100, false}, {"1%", 2, 100, true}, {"0.1%", 1, 999, true}, {"0.1%", 1, 1000, false}, {"100%", 9, 9, false},
	} {
		limit, err := (&benchCmd{MaxErrors: c.limit}).parseMaxErrors()
		if err != nil || limit.exceeded(c.failed, c.all) != c.want {
			t.Errorf("%s of %d failures in %d: %v, want %v", c.limit, c.failed, c.all, err, c.want)
		}
	}
}

// TestBenchInterrupted checks that an interrupt ends the load and that the summary is printed.
func TestBenchInterrupted(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var out bytes.Buffer
	progress := &matchWriter{pattern: regexp.MustCompile(`done [1-9]`), matched: interrupt}
	code := execute(ctx, append(shortBench, "--url", s.url, "--warmup", "0s", "--duration", "1h"), streams{out: &out, err: progress})
	if code != exitOK || !strings.Contains(out.String(), "the run was interrupted after") || !strings.Contains(out.String(), "the run is valid") {
		t.Errorf("exit %d\n%s\n%s", code, out.String(), progress.text.String())
	}
}

// matchWriter is a writer that calls a function when what was written matches a pattern.
type matchWriter struct {
	pattern *regexp.Regexp
	matched func()

	mu   sync.Mutex
	text bytes.Buffer
}

func (w *matchWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(p)
	if w.pattern.Match(w.text.Bytes()) {
		w.matched()
	}
	return len(p), nil
}

// TestBenchCommandsInDocs checks that the command lines in the documents and in the help are valid. With a cancelled context a
// valid one is interrupted.
func TestBenchCommandsInDocs(t *testing.T) {
	t.Parallel()
	pages := (&benchCmd{}).Help()
	for _, page := range []string{"../../docs/load-testing.md", "../../docs/operations.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		pages += "\n" + string(text)
	}
	commands := regexp.MustCompile(`(?m)^ *(?:[A-Z_]+=\S+ )*lingua (bench(?: -.*)?)$`).FindAllStringSubmatch(pages, -1)
	if len(commands) < 10 {
		t.Errorf("only %d commands were found", len(commands))
	}
	report := filepath.Join(t.TempDir(), "report.json")
	for _, m := range commands {
		args := strings.Fields(strings.ReplaceAll(m[1], "report.json", report))
		if got := runCommandEnv(cancelledContext(), nil, args...); got.code != exitFailed || !strings.Contains(got.err, "interrupted") {
			t.Errorf("lingua %s: exit %d\n%s%s", m[1], got.code, got.out, got.err)
		}
	}
}

// TestBenchIsRefused checks the exit codes and the advice of runs that are not made.
func TestBenchIsRefused(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.registerNode(t, "real", 2)
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	for name, c := range map[string]struct {
		args []string
		code int
		want []string
	}{
		"stand-in nodes for users":   {[]string{"--url", s.url, "--langs", "en-zh"}, exitUsage, []string{"real users", "en→zh", "--real-languages", "--nodes 0"}},
		"no node for the direction":  {[]string{"--url", s.url, "--langs", "en-fr", "--nodes", "0"}, exitFailed, []string{"en→fr", "No node supports"}},
		"too many for a session":     {[]string{"--url", s.url, "--mode", "sockets", "--sessions", "8", "--speech", "100ms"}, exitFailed, []string{"5 utterances a second for each session", "use more sessions"}},
		"no scheduler":               {[]string{"--url", unusedURL(t)}, exitUnreachable, []string{"no scheduler responds", "lingua serve"}},
		"another program":            {[]string{"--url", other.URL}, exitUnreachable, []string{other.URL, "404"}},
		"one address is unreachable": {[]string{"--url", s.url, "--url", unusedURL(t)}, exitUnreachable, []string{"no scheduler responds"}},
	} {
		got := runCommand(t, append(shortBench, c.args...)...)
		if got.code != c.code || got.out != "" {
			t.Errorf("%s: exit %d, want %d and nothing on stdout\n%s%s", name, got.code, c.code, got.out, got.err)
		}
		for _, word := range c.want {
			if !strings.Contains(got.err, word) {
				t.Errorf("%s: want %q in\n%s", name, word, got.err)
			}
		}
	}
}
