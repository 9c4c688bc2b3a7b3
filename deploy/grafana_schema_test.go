package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// checkSchema runs the check of dashboards against the types of Grafana, and returns what it finds.
func checkSchema(t *testing.T, files ...string) (problems string, ok bool) {
	t.Helper()
	skipShort(t)
	const check = "grafana/check"
	if _, err := os.Stat(filepath.Join(check, "node_modules", "@grafana", "schema")); err != nil {
		t.Fatalf("the types of Grafana are not installed (%v): run make tools", err)
	}
	out, err := exec.CommandContext(t.Context(), "node", append([]string{filepath.Join(check, "check.mjs")}, files...)...).CombinedOutput()
	return string(out), err == nil
}

// TestDashboardsMatchTheSchema checks every property of the dashboards, and their values, against the types of Grafana.
func TestDashboardsMatchTheSchema(t *testing.T) {
	t.Parallel()
	var files []string
	for _, d := range grafanaDashboards(t) {
		files = append(files, d.file)
	}
	if problems, ok := checkSchema(t, files...); !ok {
		t.Errorf("the dashboards do not match the schema of Grafana:\n%s", problems)
	}
}

// TestSchemaCheckFindsMistakes checks that the check above refuses what Grafana would ignore.
func TestSchemaCheckFindsMistakes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	whole := text(t, "grafana/overview.json")
	mistakes := map[string][2]string{ // by the name of the file
		"dashboard": {`"graphTooltip"`, `"graphTooltips"`}, "number": {`"graphTooltip": 1`, `"graphTooltip": 7`}, "kind": {`"type": "stat"`, `"type": "state"`},
		"options": {`"colorMode": "value"`, `"colourMode": "value"`}, "choice": {`"colorMode": "value"`, `"colorMode": "values"`},
		"custom": {`"drawStyle": "line"`, `"drawStyle": "lines"`}, "field": {`"unit": "short"`, `"units": "short"`}, "query": {`"expr"`, `"expression"`},
		"variable": {`"includeAll"`, `"includesAll"`}, "threshold": {`"mode": "absolute"`, `"mode": "fixed"`},
	}
	var files []string
	for name, m := range mistakes {
		broken := strings.Replace(whole, m[0], m[1], 1)
		if broken == whole {
			t.Fatalf("%s: the dashboard has no %s", name, m[0])
		}
		files = append(files, filepath.Join(dir, name+".json"))
		if err := os.WriteFile(files[len(files)-1], []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	problems, ok := checkSchema(t, files...)
	for name, m := range mistakes {
		if ok || !strings.Contains(problems, name+".json:") {
			t.Errorf("%s: %s instead of %s was not found:\n%s", name, m[1], m[0], problems)
		}
	}
}
