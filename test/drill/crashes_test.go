package drill

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/test/clustertest"
)

const crashed = "a process that exited by itself, panicked or had a data race"

// logAlarms are texts that no log may contain.
var logAlarms = []string{"WARNING: DATA RACE", "panic: ", "fatal error: ", "handler panicked"}

// findAlarms returns a violation for each alarm in a log.
func findAlarms(path string) []violation {
	f, err := os.Open(path)
	if err != nil {
		return []violation{{crashed, err.Error()}}
	}
	defer f.Close()
	var violations []violation
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		for _, text := range logAlarms {
			if strings.Contains(lines.Text(), text) {
				violations = append(violations, violation{crashed, fmt.Sprintf("%s:%d: %.300s", path, n, lines.Text())})
			}
		}
	}
	return violations
}

// findCrashes checks that no instance exited by itself, and that no log contains an alarm.
func (c *testCluster) findCrashes(drivers ...*clustertest.Driver) []violation {
	var violations []violation
	for _, i := range c.Instances {
		if !i.Process.Alive() {
			violations = append(violations, violation{crashed, fmt.Sprintf("instance %s: %v", i.Name, i.Process.ExitErr)})
		}
		violations = append(violations, findAlarms(i.LogPath)...)
	}
	for _, d := range drivers {
		violations = append(violations, findAlarms(d.LogPath)...)
	}
	return violations
}

func TestLogAlarmsAreFound(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	for text, want := range map[string]int{
		"level=INFO msg=listening\nlevel=WARN msg=x\n":  0,
		"a\nWARNING: DATA RACE\nb\npanic: x\n":          2,
		"level=ERROR msg=\"handler panicked\" job_id=x": 1,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := findAlarms(path); len(got) != want {
			t.Errorf("%q: alarms %v, want %d", text, got, want)
		}
	}
}
