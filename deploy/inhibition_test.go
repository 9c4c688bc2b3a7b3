package deploy_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// inhibition is a rule of alertmanager.yml.
type inhibition struct {
	Source []string `yaml:"source_matchers"`
	Target []string `yaml:"target_matchers"`
	Equal  []string // labels that both must have in common: the alerts of an incident below are of one instance
}

// alertMatcher is alertname="X", alertname!="X" or alertname=~"X".
var alertMatcher = regexp.MustCompile(`^alertname(=|!=|=~)"([^"]+)"$`)

// matchesAll reports whether an alert matches all matchers, as Alertmanager does: expressions match the whole name.
func matchesAll(t *testing.T, matchers []string, alert string) bool {
	t.Helper()
	return !slices.ContainsFunc(matchers, func(m string) bool {
		parts := alertMatcher.FindStringSubmatch(m)
		if parts == nil {
			t.Fatalf("this test does not know %s", m)
		}
		switch parts[1] {
		case "=":
			return alert != parts[2]
		case "!=":
			return alert == parts[2]
		}
		return !regexp.MustCompile("^(?:" + parts[2] + ")$").MatchString(alert)
	})
}

// TestOneIncidentPagesOnce: of the alerts that an incident makes fire, one is sent. Each alert that a rule lists exists.
func TestOneIncidentPagesOnce(t *testing.T) {
	t.Parallel()
	var file struct {
		Rules            []inhibition `yaml:"inhibit_rules"`
		Route, Receivers any
	}
	decode(t, "prometheus/alertmanager.yml", &file)
	var all []string
	for _, a := range rules(t) {
		all = append(all, a.Alert)
	}
	for _, r := range file.Rules {
		for _, side := range [][]string{r.Source, r.Target} {
			if !slices.ContainsFunc(all, func(name string) bool { return matchesAll(t, side, name) }) {
				t.Errorf("no alert matches %v", side)
			}
			for _, group := range regexp.MustCompile(`\(([^)]*)\)`).FindAllStringSubmatch(strings.Join(side, " "), -1) {
				for _, name := range strings.Split(group[1], "|") {
					if !slices.ContainsFunc(all, regexp.MustCompile("^Lingua"+name+"$").MatchString) {
						t.Errorf("no alert is named Lingua%s", name)
					}
				}
			}
		}
	}
	for incident, firing := range map[string][]string{
		"LinguaAllInstancesDown": {"LinguaInstanceDown", "LinguaStoreDown", "LinguaNodesLost"},
		"LinguaStoreDown": {
			"LinguaPresenceStale", "LinguaInboxGrows", "LinguaInboxStuck", "LinguaFleetFull", "LinguaNodesLost", "LinguaJobsFail", "LinguaStoreErrors",
			"LinguaStatsStale", "LinguaStoreDownForOne", "LinguaRepeatedTakeovers", "LinguaConnectionsCut", "LinguaDirectionWithoutSpare", "LinguaDispatchSlow",
		},
		"LinguaStoreDownForOne": {
			"LinguaPresenceStale", "LinguaInboxGrows", "LinguaInboxStuck", "LinguaStoreErrors", "LinguaStatsStale", "LinguaConnectionsCut", "LinguaDispatchSlow",
		},
		"LinguaNodesLost":      {"LinguaFleetFull", "LinguaFleetNearlyFull", "LinguaJobsFail", "LinguaDirectionNotServed", "LinguaWaitsRefused"},
		"LinguaInstancesSplit": {"LinguaNodesLost", "LinguaFleetFull", "LinguaDirectionNotServed", "LinguaJobsFail"},
		"LinguaFleetFull":      {"LinguaFleetNearlyFull", "LinguaWaitsRefused", "LinguaResultsSlow"},
		"LinguaInboxStuck":     {"LinguaInboxGrows"},
		"LinguaJobsFail":       {"LinguaAttemptsFail", "LinguaNodesEjected"},
	} {
		firing = append(firing, incident)
		var sent []string
		for _, alert := range firing {
			if !slices.ContainsFunc(file.Rules, func(r inhibition) bool {
				return matchesAll(t, r.Target, alert) && slices.ContainsFunc(firing, func(source string) bool {
					return source != alert && matchesAll(t, r.Source, source)
				})
			}) {
				sent = append(sent, alert)
			}
		}
		if !slices.Equal(sent, []string{incident}) {
			t.Errorf("%s: %v are sent", incident, sent)
		}
	}
}
