package deploy_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/store"
)

// recordingRules returns the expressions of the recording rules by the names that they record.
func recordingRules(t *testing.T) map[string]string {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct{ Record, Expr string }
		}
	}
	decode(t, "prometheus/lingua.recording.yml", &file)
	all := make(map[string]string)
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if r.Record == "" || all[r.Record] != "" {
				t.Errorf("%q is not unique, or no recording rule", r.Record)
			}
			all[r.Record] = r.Expr
		}
	}
	return all
}

// TestEveryRecordingRuleHasAValue checks that the rule tests, which promtool runs, give every recorded name a value, with series that a
// scheduler has.
func TestEveryRecordingRuleHasAValue(t *testing.T) {
	t.Parallel()
	var file ruleTests
	decode(t, "prometheus/lingua.recording.test.yml", &file)
	file.checkSeries(t)
	recorded := recordingRules(t)
	for name := range recorded {
		if !slices.ContainsFunc(file.Tests, func(test ruleTest) bool {
			return slices.ContainsFunc(test.ExprTests, func(e exprTest) bool { return strings.Contains(e.Expr, name) && len(e.Expected) > 0 })
		}) {
			t.Errorf("no rule test gives %s a value", name)
		}
	}
	page := text(t, "../docs/metrics.md")
	for name := range recorded {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("docs/metrics.md does not explain %s", name)
		}
	}
	for _, name := range []string{"pool_empty_rate", "ack_timeout_rate", "reserve_success_rate"} {
		if recorded[name] == "" {
			t.Errorf("%s, a name of the design, is not recorded", name)
		}
	}
}

// TestRecordingRulesMatchExistingLabelValues checks the values of labels in expressions: a rule for a value that was renamed would record
// nothing.
func TestRecordingRulesMatchExistingLabelValues(t *testing.T) {
	t.Parallel()
	values := map[string][]string{
		"success": {"true", "false"}, "result": {"delivered", "unknown"}, "verdict": {store.OK.String()}, "outcome": {"accepted", "refused"}, "same_node": {"true", "false"},
	}
	matcher := regexp.MustCompile(`(\w+)(?:=~|=)"([^"]*)"`)
	for name, expr := range recordingRules(t) {
		for _, m := range matcher.FindAllStringSubmatch(expr, -1) {
			for value := range strings.SplitSeq(m[2], "|") {
				if !slices.Contains(values[m[1]], value) {
					t.Errorf("%s matches %s, which is not a value that this test knows", name, m[0])
				}
			}
		}
	}
}
