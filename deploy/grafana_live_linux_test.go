package deploy_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/lab"
	"github.com/lingua-scheduler/lingua/test/child"
)

// livePrometheus is a running Prometheus with our configuration, but for addresses, intervals and the time that alerts wait.
type livePrometheus struct {
	*process
	stack *composeStack
	url   string
	since time.Time
}

// startPrometheus scrapes the instances of a stack every second.
func startPrometheus(s *composeStack) *livePrometheus {
	s.t.Helper()
	dir := s.t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("prometheus")); err != nil {
		s.t.Fatal(err)
	}
	change := func(name string, pairs ...string) {
		body := text(s.t, filepath.Join(dir, name))
		for i := 0; i < len(pairs); i += 2 {
			pattern := regexp.MustCompile(pairs[i])
			if !pattern.MatchString(body) {
				s.t.Fatalf("%s has no %s", name, pairs[i])
			}
			body = pattern.ReplaceAllString(body, pairs[i+1])
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	var targets []string
	for _, u := range s.entriesOf() {
		targets = append(targets, strconv.Quote(strings.TrimPrefix(u, "http://")))
	}
	change("prometheus.yml", `_interval: \S+`, "_interval: 1s", "/run/secrets", s.keys, `targets: \[.*\]`, "targets: ["+strings.Join(targets, ", ")+"]")
	change("lingua.rules.yml", `for: \S+`, "for: 0s")
	address := child.Address(child.Port(s.t))
	p := &livePrometheus{stack: s, url: "http://" + address, since: time.Now()}
	p.process = startProcess(s.t, "prometheus", os.Environ(), "prometheus", "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address, "--log.level=warn")
	waitUntil(s.t, "waiting for Prometheus", p.process, func() error { return s.request("GET", p.url+"/-/ready", "", "", nil) })
	return p
}

// series is one series of an answer: a value, or values over time.
type series struct {
	Metric map[string]string
	Value  [2]any
	Values [][2]any
}

// ask evaluates an expression: now, or over the time since the start.
func (p *livePrometheus) ask(expr string, instant bool) ([]series, error) {
	query := url.Values{"query": {expr}}
	path := "/api/v1/query"
	if !instant {
		path = "/api/v1/query_range"
		query.Set("start", strconv.FormatInt(p.since.Unix(), 10))
		query.Set("end", strconv.FormatInt(time.Now().Unix(), 10))
		query.Set("step", "1")
	}
	var answer struct {
		Data struct{ Result []series }
	}
	err := p.stack.request("GET", p.url+path+"?"+query.Encode(), "", "", &answer)
	return answer.Data.Result, err
}

// checkFilled returns an error unless an expression has a finite value.
func (p *livePrometheus) checkFilled(expr string, instant bool) error {
	all, err := p.ask(expr, instant)
	if err != nil {
		return err
	}
	for _, s := range all {
		for _, v := range append(s.Values, s.Value) {
			if finite(v) {
				return nil
			}
		}
	}
	return fmt.Errorf("empty: %d series without a finite value", len(all))
}

// finite reports whether a sample, a time and a value, has a value that can be drawn.
func finite(sample [2]any) bool {
	value, ok := sample[1].(string)
	f, err := strconv.ParseFloat(value, 64)
	return ok && err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
}

// liveQuery is a query of a dashboard as Prometheus gets it from Grafana.
type liveQuery struct {
	where, expr string
	instant     bool
}

var (
	// filled replaces what Grafana does.
	filled = strings.NewReplacer("$instance", ".+", "$direction", ".+", "$__rate_interval", "15s", "$__range", "1m")
	// fallback is the part of a query that makes it 0 where nothing has happened.
	fallback = regexp.MustCompile(` or (on \(\) )?vector\(0\)$`)
)

// liveQueries returns all queries of the dashboards. One with a fallback is there a second time without it: here everything happens.
func liveQueries(t *testing.T) []liveQuery {
	t.Helper()
	var all []liveQuery
	for _, d := range grafanaDashboards(t) {
		for title, queries := range d.queries(t) {
			for _, q := range queries {
				one := liveQuery{d.Title + ", " + title, filled.Replace(q.Expr), q.Instant}
				all = append(all, one)
				if plain := fallback.ReplaceAllString(one.expr, ""); plain != one.expr {
					all = append(all, liveQuery{one.where + ", without its fallback", plain, false})
				}
			}
		}
	}
	return all
}

// TestDashboardsShowALiveCluster runs every query of every panel on Prometheus, which scrapes three instances with nodes that fail, sessions,
// refusals, an instance that is killed and a Redis that hangs. None may be empty. With -v it prints what the dashboards show.
func TestDashboardsShowALiveCluster(t *testing.T) {
	t.Parallel()
	s := newComposeStack(t)
	hub := httptest.NewServer(lab.NewModelHub("", lab.DemoServices()...))
	t.Cleanup(hub.Close)
	binary, redis := built(t), s.startRedis()
	settings := append(slices.Clone(liveSettings), "LINGUA_SCHEDULER_MODEL_HUB_URL="+hub.URL+lab.ServicesPath)
	s.startInstances(binary, redis, settings...)
	p := startPrometheus(s)

	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	load.Go(func() { (&liveLoad{s, s.entriesOf()}).run(ctx) })
	t.Cleanup(func() {
		stop()
		load.Wait()
	})
	log := func(phase string) { t.Logf("%s after %v", phase, time.Since(p.since).Round(time.Second)) }
	waitUntil(t, "waiting for results", p.process, func() error { return p.checkFilled(`lingua_jobs_total{state="DONE"} > 50`, true) })

	log("results")
	killed := s.compose.servicesRunning("serve")[2]
	port := s.urls[killed][strings.LastIndex(s.urls[killed], ":")+1:]
	s.instances[killed].KillAndWait()
	waitUntil(t, "waiting for the takeover", p.process, func() error { return p.checkFilled(`sum(lingua_takeovers_total{kind="instance"}) > 0`, true) })
	s.startInstance(binary, redis, killed, append(settings, "LINGUA_SERVER_PORT="+port)...)
	log("takeover")
	s.redis.Stop()
	stopped := time.Now().Unix()
	waitUntil(t, "waiting for errors of Redis", p.process, func() error {
		return p.checkFilled(fmt.Sprintf(`sum(lingua_store_errors_total) > (sum(lingua_store_errors_total @ %d) or vector(0))`, stopped), true)
	})
	s.redis.Continue()
	log("errors of Redis")

	p.waitFilled(liveQueries(t))
	if testing.Verbose() {
		p.print()
	}
}

// waitFilled waits until no query is empty.
func (p *livePrometheus) waitFilled(missing []liveQuery) {
	t := p.stack.t
	t.Helper()
	var problems []string
	late := time.NewTimer(60 * time.Second)
	defer late.Stop()
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for total := len(missing); ; {
		problems = nil
		missing = slices.DeleteFunc(missing, func(q liveQuery) bool {
			err := p.checkFilled(q.expr, q.instant)
			if err != nil {
				problems = append(problems, fmt.Sprintf("%s: %v\n\t%s", q.where, err, q.expr))
			}
			return err == nil
		})
		if len(missing) == 0 {
			t.Logf("%d queries have values, %v after the start", total, time.Since(p.since).Round(time.Second))
			return
		}
		select {
		case <-p.Exited:
			t.Fatal(errors.Join(errors.New("prometheus has ended"), p.ExitErr))
		case <-late.C:
			t.Fatalf("%d of %d queries are empty:\n%s", len(missing), total, strings.Join(problems, "\n"))
		case <-again.C:
		}
	}
}

// print logs what every panel shows now.
func (p *livePrometheus) print() {
	var out strings.Builder
	for _, d := range grafanaDashboards(p.stack.t) {
		fmt.Fprintf(&out, "\n%s\n", d.Title)
		for _, panel := range d.Panels {
			if panel.Type == "row" {
				fmt.Fprintf(&out, "  %s\n", panel.Title)
			}
			for _, q := range panel.Targets {
				all, err := p.ask(filled.Replace(q.Expr), true)
				fmt.Fprintf(&out, "    %-45s", panel.Title)
				for _, one := range all[:min(len(all), 4)] {
					var labels []string
					for _, v := range one.Metric {
						labels = append(labels, v)
					}
					slices.Sort(labels)
					fmt.Fprintf(&out, " %s=%v %s;", strings.Join(labels, " "), one.Value[1], panel.FieldConfig.Defaults.Unit)
				}
				if err != nil {
					fmt.Fprintf(&out, " %v", err)
				}
				out.WriteString("\n")
			}
		}
	}
	p.stack.t.Log(out.String())
}
