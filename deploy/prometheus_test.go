package deploy_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/internal/wirespec"
	"github.com/lingua-scheduler/lingua/wire"
)

type scraping struct {
	Global struct {
		ScrapeInterval     string `yaml:"scrape_interval"`
		EvaluationInterval string `yaml:"evaluation_interval"`
	}
	RuleFiles []string `yaml:"rule_files"`
	Scrapes   []struct {
		Job           string `yaml:"job_name"`
		Authorization struct {
			CredentialsFile string `yaml:"credentials_file"`
		}
		Static []struct{ Targets []string } `yaml:"static_configs"`
	} `yaml:"scrape_configs"`
}

type alerts struct {
	Groups []struct {
		Name  string
		Rules []alert
	}
}

type alert struct {
	Alert, Expr string
	For         string
	Labels      struct{ Severity string }
	Annotations struct{ Summary, Runbook string }
}

// rules are all alerts.
func rules(t *testing.T) []alert {
	t.Helper()
	var file alerts
	decode(t, "prometheus/lingua.rules.yml", &file)
	var all []alert
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("there are no alerts")
	}
	return all
}

var described = regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)

// metrics are what a scheduler shows, each with its labels, and what Prometheus adds.
func metrics(t *testing.T) map[string][]string {
	t.Helper()
	s, err := scheduler.New(t.Context(), config.Default(), wire.VersionResponse{}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Store.Close()
	descs := make(chan *prometheus.Desc)
	go func() {
		s.Metrics.Registry.Describe(descs)
		close(descs)
	}()
	all := map[string][]string{"up": nil}
	for d := range descs {
		m := described.FindStringSubmatch(d.String())
		if m == nil {
			t.Errorf("cannot read %s", d)
			continue
		}
		labels := strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' })
		all[m[1]] = labels
		if strings.HasSuffix(m[1], "_seconds") || strings.HasSuffix(m[1], "_ms") { // perhaps a histogram
			for suffix, more := range map[string][]string{"_bucket": {"le"}, "_count": nil, "_sum": nil} {
				all[m[1]+suffix] = append(slices.Clone(labels), more...)
			}
		}
	}
	return all
}

func TestAlertsReadWhatThereIs(t *testing.T) {
	t.Parallel()
	there := metrics(t)
	for _, a := range rules(t) {
		r, err := read(a.Expr)
		if err != nil {
			t.Errorf("%s: %v", a.Alert, err)
			continue
		}
		spoken := []string{"instance", "job"} // what Prometheus adds
		for _, s := range r.selectors {
			labels, ok := there[s.metric]
			if !ok {
				t.Errorf("%s reads %s, which nobody shows", a.Alert, s.metric)
			}
			spoken = append(spoken, labels...)
			for _, l := range s.labels {
				if l != "job" && !slices.Contains(labels, l) {
					t.Errorf("%s looks for the label %s of %s, which has %v", a.Alert, l, s.metric, labels)
				}
			}
		}
		if len(r.selectors) == 0 {
			t.Errorf("%s reads nothing", a.Alert)
		}
		for _, l := range r.grouping {
			if !slices.Contains(spoken, l) {
				t.Errorf("%s groups by %s, which nothing it reads has", a.Alert, l)
			}
		}
	}
}

// The values of labels that alerts wait for are ours, too: a code that is renamed would silence its alert.
func TestAlertsLookForValuesThereAre(t *testing.T) {
	t.Parallel()
	values := map[string]func(string) bool{
		"reason":  func(v string) bool { return slices.Contains(wirespec.Codes(), wire.Code(v)) },
		"state":   func(v string) bool { _, err := core.ParseState(v); return err == nil },
		"job":     func(v string) bool { return v == "lingua" },
		"outcome": func(v string) bool { return slices.Contains([]string{"accepted", "refused", "result", "error"}, v) },
		"result":  func(v string) bool { return v == "delivered" },
		"code": func(v string) bool {
			return regexp.MustCompile(`^(1\d{3}|4[45]\d{2})(\|(1\d{3}|4[45]\d{2}))*$`).MatchString(v)
		},
	}
	matcher := regexp.MustCompile(`(\w+)(?:=~|=)"([^"]*)"`)
	for _, a := range rules(t) {
		for _, m := range matcher.FindAllStringSubmatch(a.Expr, -1) {
			if good := values[m[1]]; good == nil || !good(m[2]) {
				t.Errorf("%s looks for %s, which is no value this test knows", a.Alert, m[0])
			}
		}
	}
}

func TestAlertsAreWhole(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, a := range rules(t) {
		if seen[a.Alert] || !regexp.MustCompile(`^Lingua[A-Z][A-Za-z]+$`).MatchString(a.Alert) {
			t.Errorf("%q is there twice, or is no name for an alert of ours", a.Alert)
		}
		seen[a.Alert] = true
		if a.Labels.Severity != "page" && a.Labels.Severity != "ticket" {
			t.Errorf("%s: severity %q", a.Alert, a.Labels.Severity)
		}
		if want := "docs/alerts.md#" + strings.ToLower(a.Alert); a.Annotations.Runbook != want || a.Annotations.Summary == "" {
			t.Errorf("%s: runbook %q, want %s; summary %q", a.Alert, a.Annotations.Runbook, want, a.Annotations.Summary)
		}
		if _, err := time.ParseDuration(a.For); a.For != "" && err != nil {
			t.Errorf("%s: %v", a.Alert, err)
		}
	}
}

// An alert that waits for four fifths of a limit has the limit in it as a number.
func TestAudioAlertFitsTheBuffer(t *testing.T) {
	t.Parallel()
	c := compose(t)
	limit := c.configuration(t, "lingua-1").Scheduler.Sessions.AudioBufferMB << 20
	for _, a := range rules(t) {
		if a.Alert == "LinguaAudioBufferFull" {
			var got int
			if m := regexp.MustCompile(`> (\d+)$`).FindStringSubmatch(a.Expr); m != nil {
				for _, digit := range m[1] {
					got = 10*got + int(digit-'0')
				}
			}
			if want := limit * 4 / 5; got != want {
				t.Errorf("it waits for %d bytes, want %d, four fifths of %d", got, want, limit)
			}
			return
		}
	}
	t.Error("there is no such alert")
}

func TestPrometheusAsksEveryInstance(t *testing.T) {
	t.Parallel()
	c := compose(t)
	var p scraping
	decode(t, "prometheus/prometheus.yml", &p)
	if len(p.Scrapes) != 1 || p.Scrapes[0].Job != "lingua" || len(p.Scrapes[0].Static) != 1 {
		t.Fatalf("want one job with one list of targets, not %+v", p.Scrapes)
	}
	scrape := p.Scrapes[0]
	var want []string
	for _, name := range c.runs("serve") {
		want = append(want, name+":5010")
	}
	if got := slices.Sorted(slices.Values(scrape.Static[0].Targets)); !slices.Equal(got, want) {
		t.Errorf("it asks %v, want %v", got, want)
	}
	for _, file := range p.RuleFiles {
		mounted := "./prometheus/" + file + ":/etc/prometheus/" + file + ":ro"
		if !slices.Contains(c.Services["prometheus"].Volumes, mounted) {
			t.Errorf("its rules %s are not mounted", file)
		}
	}
	secret, _ := strings.CutPrefix(scrape.Authorization.CredentialsFile, "/run/secrets/")
	if !slices.Contains(c.Services["prometheus"].Secrets, secret) {
		t.Errorf("its key %s is not among its secrets", scrape.Authorization.CredentialsFile)
	}
	key := text(t, filepath.Join(secrets(t), secret))
	cfg := c.configuration(t, "lingua-1")
	if !slices.Contains(cfg.Auth.OperatorKeys, key) {
		t.Error("its key opens no scheduler")
	}
	for _, interval := range []string{p.Global.ScrapeInterval, p.Global.EvaluationInterval} {
		if d, err := time.ParseDuration(interval); err != nil || d > 30*time.Second {
			t.Errorf("interval %q: alerts look at windows of a minute", interval)
		}
	}
}

func TestPrometheusByPromtool(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("prometheus")); err != nil {
		t.Fatal(err)
	}
	// It wants to see the key where it will be.
	name := filepath.Join(dir, "prometheus.yml")
	here := strings.ReplaceAll(text(t, name), "/run/secrets", secrets(t))
	if err := os.WriteFile(name, []byte(here), 0o600); err != nil {
		t.Fatal(err)
	}
	tool(t, "promtool", "check", "config", name)
	tool(t, "promtool", "check", "rules", filepath.Join(dir, "lingua.rules.yml"))
	tool(t, "promtool", "test", "rules", filepath.Join(dir, "lingua.rules.test.yml"))
}
