package deploy_test

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// grafanaDashboard is the part of a dashboard that is compared with the scheduler. TestDashboardsMatchTheSchema checks all of it.
type grafanaDashboard struct {
	file string

	UID, Title, Description string
	Panels                  []grafanaPanel
	Links                   []struct{ Type, URL string }
	Templating              struct {
		List []struct{ Type, Name, Query string }
	}
	Annotations struct {
		List []struct{ Target grafanaQuery }
	}
}

type grafanaPanel struct {
	Type, Title, Description string
	Targets                  []grafanaQuery
	Links                    []struct{ Title, URL string }
	FieldConfig              struct {
		Defaults struct{ Unit string }
	}
	GridPos struct{ X, Y, W, H int }
}

type grafanaQuery struct {
	Expr    string
	Instant bool
}

// grafanaDashboards returns all dashboards.
func grafanaDashboards(t *testing.T) []grafanaDashboard {
	t.Helper()
	files, err := filepath.Glob("grafana/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no dashboards: %v", err)
	}
	var all []grafanaDashboard
	for _, file := range files {
		d := grafanaDashboard{file: file}
		if err := json.Unmarshal([]byte(text(t, file)), &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, d)
	}
	return all
}

// dashboardUIDs returns the names by which a link finds a dashboard.
func dashboardUIDs(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, d := range grafanaDashboards(t) {
		all = append(all, d.UID)
	}
	return all
}

// queries returns every query of a dashboard by what it belongs to: panels, variables and annotations.
func (d *grafanaDashboard) queries(t *testing.T) map[string][]grafanaQuery {
	t.Helper()
	all := make(map[string][]grafanaQuery)
	for _, p := range d.Panels {
		if p.Type != "row" {
			all[p.Title] = p.Targets
		}
	}
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		m := labelValues.FindStringSubmatch(v.Query)
		if m == nil {
			t.Errorf("%s: cannot parse the query of the variable %s: %s", d.file, v.Name, v.Query)
			continue
		}
		all["variable "+v.Name] = []grafanaQuery{{Expr: "count by (" + m[2] + ") (" + m[1] + ")", Instant: true}}
	}
	return all
}

// groupedBy finds the labels that a recorded series has.
var groupedBy = regexp.MustCompile(`\bby \(([^)]+)\)`)

// labelValues is a query for the values of a label, which Grafana evaluates itself.
var labelValues = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)

// TestDashboardsAreComplete checks what a reader needs: every panel says what it shows, in which unit, and what to do.
func TestDashboardsAreComplete(t *testing.T) {
	t.Parallel()
	runbooks := make(map[string]bool)
	for _, a := range rules(t) {
		runbooks["${runbooks}#"+strings.ToLower(a.Alert)] = true
	}
	want := []string{"dispatch", "instances", "nodes", "overview", "redis", "sessions"}
	var got []string
	linked := make(map[string]bool)
	for _, d := range grafanaDashboards(t) {
		got = append(got, strings.TrimPrefix(d.UID, "lingua-"))
		if d.file != "grafana/"+strings.TrimPrefix(d.UID, "lingua-")+".json" || d.Title == "" || d.Description == "" || len(d.Links) != 2 {
			t.Errorf("%s: uid %q, title %q, %d links, description %q", d.file, d.UID, d.Title, len(d.Links), d.Description)
		}
		titles := make(map[string]bool)
		for i, p := range d.Panels {
			if p.Type == "row" {
				continue
			}
			if titles[p.Title] || p.Title == "" || len(p.Description) < 40 || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 {
				t.Errorf("%s: %q is not unique, or has no description, unit or query", d.file, p.Title)
			}
			titles[p.Title] = true
			for _, l := range p.Links {
				if !runbooks[l.URL] {
					t.Errorf("%s: %s links to %s, which is no alert", d.file, p.Title, l.URL)
				}
				linked[l.URL] = true
			}
			for _, other := range d.Panels[:i] {
				if a, b := p.GridPos, other.GridPos; a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H || a.X+a.W > 24 {
					t.Errorf("%s: %s and %s overlap", d.file, p.Title, other.Title)
				}
			}
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the dashboards are %v, want %v", got, want)
	}
	for url := range runbooks {
		if !linked[url] {
			t.Errorf("no panel shows what the alert of %s is about", url)
		}
	}
}

// TestQueriesNameExistingMetrics checks that every metric and label of a dashboard or an alert is one that a scheduler has.
func TestQueriesNameExistingMetrics(t *testing.T) {
	t.Parallel()
	existing := metrics(t)
	existing["ALERTS"] = []string{"alertname", "alertstate", "severity"}
	for name, expr := range recordingRules(t) {
		existing[name] = nil
		for _, by := range groupedBy.FindAllStringSubmatch(expr, -1) {
			existing[name] = append(existing[name], strings.Split(by[1], ", ")...)
		}
	}
	check := func(where, expr string) {
		for _, problem := range checkNames(expr, existing) {
			t.Errorf("%s: %s, in\n%s", where, problem, expr)
		}
	}
	for _, d := range grafanaDashboards(t) {
		for title, all := range d.queries(t) {
			for _, q := range all {
				check(d.file+", "+title, q.Expr)
			}
		}
		for _, a := range d.Annotations.List {
			check(d.file+", annotation", a.Target.Expr)
		}
	}
	for _, a := range rules(t) {
		check(a.Alert, a.Expr)
	}
	for name, expr := range recordingRules(t) {
		check(name, expr)
	}
}

func TestCheckNames(t *testing.T) {
	t.Parallel()
	existing := map[string][]string{"a_total": {"kind"}, "b_seconds_bucket": {"le"}}
	for expr, want := range map[string]int{
		`sum by (kind) (rate(a_total{kind=~"x|y", instance="i"}[5m]))`:                           0,
		`histogram_quantile(0.99, sum by (le) (rate(b_seconds_bucket[$__rate_interval]))) > 1e3`: 0,
		`a_total offset 10m unless on (instance) b_seconds_bucket or on () vector(0)`:            0,
		`max_over_time(sum(a_total)[30m:1m]) / on () group_left () sum(a_total)`:                 0,
		`rate(c_total[5m])`:                  1,
		`a_total{le="1"}`:                    1, // a label of another metric
		`a_total{kind!="x"} + c_total{}`:     1,
		`sum by (reason) (a_total)`:          1,
		`a_total + on (reason) a_total`:      1,
		`sum without (a, b) (a_total{c=""})`: 3,
	} {
		if got := checkNames(expr, existing); len(got) != want {
			t.Errorf("%s: %q, want %d problems", expr, got, want)
		}
	}
}

var (
	token    = regexp.MustCompile(`"[^"]*"|\[[^\]]*\]|\d[\w.]*|[A-Za-z_:][\w:]*|\S`)
	name     = regexp.MustCompile(`^[A-Za-z_:]`)
	grouping = []string{"by", "without", "on", "ignoring", "group_left", "group_right"}
	operator = []string{"and", "or", "unless", "bool", "offset"}
)

// checkNames returns what is wrong with the names in an expression, whose syntax Prometheus checks.
func checkNames(expr string, existing map[string][]string) []string {
	var problems, all []string
	grouped := make(map[string]bool)
	metric, inBraces, inGrouping := "", false, false
	tokens := append(token.FindAllString(expr, -1), "")
	for i, word := range tokens[:len(tokens)-1] {
		next := tokens[i+1]
		switch {
		case word == "{":
			inBraces = true
		case word == "}":
			inBraces = false
		case word == ")":
			inGrouping = false
		case !name.MatchString(word):
		case inBraces && !slices.Contains(append([]string{"instance", "job"}, existing[metric]...), word):
			problems = append(problems, metric+" has no label "+word)
		case inBraces:
		case inGrouping:
			grouped[word] = true
		case slices.Contains(grouping, word) && next == "(":
			inGrouping = true
		case next == "(" || next == "by" || next == "without" || slices.Contains(operator, word): // a function or an aggregation
		default:
			metric = word
			if _, ok := existing[metric]; !ok {
				problems = append(problems, "there is no metric "+metric)
				continue
			}
			all = append(all, metric)
		}
	}
	for label := range grouped {
		if label != "instance" && label != "job" && !slices.ContainsFunc(all, func(m string) bool { return slices.Contains(existing[m], label) }) {
			problems = append(problems, "no metric has the label "+label)
		}
	}
	return problems
}
