package repo_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// namedLabels are the metrics whose values are named in internal/telemetry/labels.go, by the fields through which they are counted.
const namedLabels = "NodeRegistration|Deliveries|Orphans|Admissions|Counted|Events|Messages|Takeovers|StoreLost|Retries|Refusals|NodeSelection"

// TestLabelValuesAreNamed: packages that count these metrics use the named values, for which there are series from the start. A value of
// their own would begin with its first event, in which rate() sees nothing.
func TestLabelValuesAreNamed(t *testing.T) {
	t.Parallel()
	call, found := regexp.MustCompile(`\.(?:`+namedLabels+`)\.WithLabelValues\((.*)\)`), 0
	goFiles(t, func(file, dir string) {
		if strings.HasSuffix(file, "_test.go") || dir == "internal/telemetry" {
			return
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
		}
		for _, m := range call.FindAllStringSubmatch(string(text), -1) {
			if found++; strings.Contains(m[1], `"`) {
				t.Errorf("%s: a value of %s is not named in internal/telemetry/labels.go", file, m[1])
			}
		}
	})
	if found < 20 {
		t.Errorf("%d calls were found", found)
	}
}
