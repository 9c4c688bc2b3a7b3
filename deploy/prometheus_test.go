package deploy_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/internal/wirespec"
	"github.com/lingua-scheduler/lingua/wire"
)

// scraping is the configuration of Prometheus.
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

// ruleTests is a file of `promtool test rules`.
type ruleTests struct {
	RuleFiles          []string `yaml:"rule_files"`
	EvaluationInterval string   `yaml:"evaluation_interval"`
	Tests              []ruleTest
}

type ruleTest struct {
	Name        string
	Interval    string
	InputSeries []struct{ Series, Values string } `yaml:"input_series"`
	AlertTests  []struct {
		EvalTime string `yaml:"eval_time"`
		Name     string `yaml:"alertname"`
		Expected []any  `yaml:"exp_alerts"`
	} `yaml:"alert_rule_test"`
	ExprTests []exprTest `yaml:"promql_expr_test"`
}

type exprTest struct {
	Expr     string
	EvalTime string `yaml:"eval_time"`
	Expected []any  `yaml:"exp_samples"`
}

// alerts is a file of rules.
type alerts struct {
	Groups []struct {
		Name  string
		Rules []alert
	}
}

type alert struct {
	Alert, Expr   string
	For           string
	KeepFiringFor string `yaml:"keep_firing_for"`
	Labels        struct{ Severity string }
	Annotations   struct{ Summary, Runbook, Dashboard string }
}

// rules returns all alerts.
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

// metrics returns the metrics of a scheduler, and those that Prometheus adds, with their labels.
func metrics(t *testing.T) map[string][]string {
	t.Helper()
	cfg := config.Default()
	cfg.Scheduler.ModelHub.URL = "http://127.0.0.1:1/v1/services" // with one there are metrics of the catalog
	s, err := scheduler.New(t.Context(), cfg, wire.VersionResponse{}, slog.New(slog.DiscardHandler), nil)
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
			t.Errorf("cannot parse %s", d)
			continue
		}
		labels := strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' })
		all[m[1]] = labels
		if strings.HasSuffix(m[1], "_seconds") || strings.HasSuffix(m[1], "_ms") { // may be a histogram
			for suffix, more := range map[string][]string{"_bucket": {"le"}, "_count": nil, "_sum": nil} {
				all[m[1]+suffix] = append(slices.Clone(labels), more...)
			}
		}
	}
	return all
}

// seriesPattern matches a series of a rule test, whose syntax promtool checks.
var (
	seriesPattern = regexp.MustCompile(`^(\w+)\{([^}]*)\}$`)
	labelPattern  = regexp.MustCompile(`(\w+)="`)
)

// checkSeries checks that a scheduler has the series of the tests.
func (f *ruleTests) checkSeries(t *testing.T) {
	t.Helper()
	existing := metrics(t)
	for _, test := range f.Tests {
		for _, input := range test.InputSeries {
			m := seriesPattern.FindStringSubmatch(input.Series)
			if m == nil {
				t.Errorf("%s: cannot parse %s", test.Name, input.Series)
				continue
			}
			labels, ok := existing[m[1]]
			if !ok {
				t.Errorf("%s: there is no metric %s", test.Name, m[1])
			}
			for _, l := range labelPattern.FindAllStringSubmatch(m[2], -1) {
				if !slices.Contains(append([]string{"instance", "job"}, labels...), l[1]) { // Prometheus adds those two
					t.Errorf("%s: %s has no label %s, only %v", test.Name, m[1], l[1], labels)
				}
			}
		}
	}
}

// TestEveryAlertFiresOnExistingSeries checks that the rule tests, which promtool runs, make every alert fire, and that they
// do so with series that a scheduler has. An alert that reads a metric or a label that does not exist would not fire.
func TestEveryAlertFiresOnExistingSeries(t *testing.T) {
	t.Parallel()
	var file ruleTests
	decode(t, "prometheus/lingua.rules.test.yml", &file)
	file.checkSeries(t)
	fires := make(map[string]bool)
	for _, test := range file.Tests {
		for _, alert := range test.AlertTests {
			fires[alert.Name] = fires[alert.Name] || len(alert.Expected) > 0
		}
	}
	for _, a := range rules(t) {
		if !fires[a.Alert] {
			t.Errorf("no rule test makes %s fire", a.Alert)
		}
	}
}

// TestAlertsMatchExistingLabelValues checks the values of labels in expressions: an alert on a code that was renamed would
// never fire.
func TestAlertsMatchExistingLabelValues(t *testing.T) {
	t.Parallel()
	values := map[string]func(string) bool{
		"reason":  func(v string) bool { return slices.Contains(wirespec.Codes(), wire.Code(v)) },
		"state":   func(v string) bool { _, err := core.ParseState(v); return err == nil },
		"job":     func(v string) bool { return v == "lingua" },
		"outcome": func(v string) bool { return slices.Contains([]string{"accepted", "refused", "result", "error"}, v) },
		"result":  func(v string) bool { return v == "delivered" },
		"verdict": func(v string) bool { return v == "cannot_be_met|queue_full" },
		"health":  func(v string) bool { return v == "ejected" },
		"ready":   func(v string) bool { return v == "0|1" },
		"code": func(v string) bool {
			return regexp.MustCompile(`^(1\d{3}|4[45]\d{2})(\|(1\d{3}|4[45]\d{2}))*$`).MatchString(v)
		},
	}
	matcher := regexp.MustCompile(`(\w+)(?:=~|=)"([^"]*)"`)
	for _, a := range rules(t) {
		for _, m := range matcher.FindAllStringSubmatch(a.Expr, -1) {
			if exists := values[m[1]]; exists == nil || !exists(m[2]) {
				t.Errorf("%s matches %s, which is not a value that this test knows", a.Alert, m[0])
			}
		}
	}
}

func TestAlertsAreComplete(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, a := range rules(t) {
		if seen[a.Alert] || !regexp.MustCompile(`^Lingua[A-Z][A-Za-z]+$`).MatchString(a.Alert) {
			t.Errorf("%q is not unique, or not a valid name of an alert", a.Alert)
		}
		seen[a.Alert] = true
		if a.Labels.Severity != "page" && a.Labels.Severity != "ticket" {
			t.Errorf("%s: severity %q", a.Alert, a.Labels.Severity)
		}
		if want := "docs/alerts.md#" + strings.ToLower(a.Alert); a.Annotations.Runbook != want || a.Annotations.Summary == "" {
			t.Errorf("%s: runbook %q, want %s; summary %q", a.Alert, a.Annotations.Runbook, want, a.Annotations.Summary)
		}
		if uid, ok := strings.CutPrefix(a.Annotations.Dashboard, "/d/"); !ok || !slices.Contains(dashboardUIDs(t), uid) {
			t.Errorf("%s: there is no dashboard %q", a.Alert, a.Annotations.Dashboard)
		}
		if _, err := time.ParseDuration(a.For); a.For != "" && err != nil {
			t.Errorf("%s: %v", a.Alert, err)
		}
	}
}

// TestThresholdsMatchTheConfiguration checks the alerts that have a limit of the configuration as a number.
func TestThresholdsMatchTheConfiguration(t *testing.T) {
	t.Parallel()
	c := compose(t)
	cfg := c.config(t, "lingua-1").Scheduler
	const longestStatsInterval = 10 // the validation of scheduler.stats.interval_seconds allows no more
	for name, want := range map[string]int{
		"LinguaAudioBufferFull": cfg.Sessions.AudioBufferMB << 20 * 4 / 5,
		"LinguaStatsStale":      3 * longestStatsInterval,
		"LinguaCatalogStale":    20 * int(cfg.ModelHub.RefreshSeconds.Duration().Seconds()),
	} {
		i := slices.IndexFunc(rules(t), func(a alert) bool { return a.Alert == name })
		if i < 0 {
			t.Errorf("there is no alert %s", name)
			continue
		}
		expr := rules(t)[i].Expr
		if !strings.HasSuffix(expr, fmt.Sprintf(" > %d", want)) {
			t.Errorf("%s fires at %s, want %d", name, expr, want)
		}
	}
}

func TestPrometheusScrapesEveryInstance(t *testing.T) {
	t.Parallel()
	c := compose(t)
	var p scraping
	decode(t, "prometheus/prometheus.yml", &p)
	if len(p.Scrapes) != 1 || p.Scrapes[0].Job != "lingua" || len(p.Scrapes[0].Static) != 1 {
		t.Fatalf("want one job with one list of targets, not %+v", p.Scrapes)
	}
	scrape := p.Scrapes[0]
	var want []string
	for _, name := range c.servicesRunning("serve") {
		want = append(want, name+":5010")
	}
	if got := slices.Sorted(slices.Values(scrape.Static[0].Targets)); !slices.Equal(got, want) {
		t.Errorf("targets %v, want %v", got, want)
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
	cfg := c.config(t, "lingua-1")
	keyring, err := cfg.Auth.Keyring()
	if err != nil {
		t.Fatal(err)
	}
	if caller, reason := auth.NewAuthenticator(keyring, nil).Authenticate(key); reason != "" || caller.Role != auth.Metrics {
		t.Errorf("its key is not one for metrics: %+v %s", caller, reason)
	}
	for _, interval := range []string{p.Global.ScrapeInterval, p.Global.EvaluationInterval} {
		if d, err := time.ParseDuration(interval); err != nil || d > 30*time.Second {
			t.Errorf("interval %q: alerts use windows of a minute", interval)
		}
	}
}

// TestPromtool checks the configuration and the rules with promtool and runs the rule tests.
func TestPromtool(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("prometheus")); err != nil {
		t.Fatal(err)
	}
	// promtool requires that the credentials file exists.
	name := filepath.Join(dir, "prometheus.yml")
	local := strings.ReplaceAll(text(t, name), "/run/secrets", secrets(t))
	if err := os.WriteFile(name, []byte(local), 0o600); err != nil {
		t.Fatal(err)
	}
	mustTool(t, "promtool", "check", "config", name)
	for _, name := range []string{"lingua.rules", "lingua.recording"} {
		mustTool(t, "promtool", "check", "rules", filepath.Join(dir, name+".yml"))
		mustTool(t, "promtool", "test", "rules", filepath.Join(dir, name+".test.yml"))
	}
}
