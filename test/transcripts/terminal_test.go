package transcripts

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/test/docpage"
)

// terminalWord begins what the info string of a block says about a recorded terminal.
const terminalWord = "terminal "

// terminals are the blocks with a recorded terminal, by the test that records them.
var terminals = map[string]string{
	"pools-overview": "TestPoolsWalkThrough", "pools-explain-bound": "TestPoolsWalkThrough", "pools-explain": "TestPoolsWalkThrough", "pools-job": "TestPoolsWalkThrough",
	"pools-not-ready": "TestPoolsWalkThrough", "pools-metrics": "TestPoolsWalkThrough", "pools-strict": "TestPoolsWalkThrough", "pools-buckets": "TestPoolsWalkThrough",
	"pools-api": "TestPoolsWalkThrough", "tenants-refusal": "TestTenantsWalkThrough", "tenants-list": "TestTenantsWalkThrough",
}

// TestEveryTerminalIsRecorded checks that the pages have no terminal that these tests do not record.
func TestEveryTerminalIsRecorded(t *testing.T) {
	t.Parallel()
	for _, page := range loadPages(t) {
		for _, b := range page.Blocks() {
			if name, found := strings.CutPrefix(b.About(), terminalWord); found && terminals[name] == "" {
				t.Errorf("%s:%d: no test records the terminal %s", b.Page, b.Line, name)
			}
		}
	}
}

// terminal runs commands against an instance, and records them with what they print.
type terminal struct {
	t        *testing.T
	binary   string
	instance *clustertest.Instance
	recorded strings.Builder
}

// lingua runs a command of lingua and returns what it prints. Its exit code does not matter.
func (m *terminal) lingua(args ...string) string {
	m.t.Helper()
	cmd := exec.CommandContext(m.t.Context(), m.binary, args...)
	cmd.Env = []string{"LINGUA_URL=" + m.instance.URL()}
	out, err := cmd.CombinedOutput()
	if len(out) == 0 {
		m.t.Fatalf("lingua %s printed nothing: %v", strings.Join(args, " "), err)
	}
	return string(out)
}

// run records a command of lingua.
func (m *terminal) run(line string) {
	m.t.Helper()
	m.record("lingua "+line, m.lingua(docpage.Words(line)...))
}

// fetch sends a request; an empty body is a GET.
func (m *terminal) fetch(path, body string) string {
	m.t.Helper()
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(m.t.Context(), method, m.instance.URL()+path, strings.NewReader(body))
	if err != nil {
		m.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: waitTimeout}
	resp, err := client.Do(r)
	if err != nil {
		m.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		m.t.Fatal(err)
	}
	return string(answer)
}

// curl records a request as a command of curl, and returns the answer.
func (m *terminal) curl(path, body string) string {
	m.t.Helper()
	answer := m.fetch(path, body)
	command := "curl -s $LINGUA_URL" + path
	if body != "" {
		command = fmt.Sprintf("curl -s $LINGUA_URL%s -H 'Content-Type: application/json' -d '%s'", path, body)
	}
	m.record(command, answer)
	return answer
}

// record adds a command and what it printed.
func (m *terminal) record(command, printed string) {
	if m.recorded.Len() > 0 {
		m.recorded.WriteString("\n")
	}
	var out bytes.Buffer
	for line := range strings.Lines(printed) {
		out.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	m.recorded.WriteString("$ " + command + "\n" + strings.TrimRight(out.String(), "\n") + "\n")
}

// compare compares what was recorded since the last call with a block, or writes it there.
func (m *terminal) compare(name string) {
	m.t.Helper()
	compare(m.t, "text "+terminalWord+name, m.recorded.String(), canonicalTerminal)
	m.recorded.Reset()
}

// What differs from run to run: ids, ages and durations.
var terminalValues = []struct {
	pattern *regexp.Regexp
	value   string
}{
	{regexp.MustCompile(`job-[0-9a-f]+`), "<job>"},
	{regexp.MustCompile(`req-[0-9a-f]+`), "<request>"},
	{regexp.MustCompile(`\bi-[0-9a-z]{8}\b`), "<instance>"},
	{regexp.MustCompile(`\b(\d+s ago|now)$`), "<age>"},
	{regexp.MustCompile(`for another \d+m?\d*s`), "for another <time>"},
	{regexp.MustCompile(`\b\d+(\.\d+)?m?s\b`), "<duration>"},
	{regexp.MustCompile(`("counted_ms": ?)\d+`), "${1}0"},
	{regexp.MustCompile(` +`), " "},
}

// canonicalTerminal returns the lines of a terminal without what differs from run to run.
func canonicalTerminal(body string) []string {
	var lines []string
	for line := range strings.Lines(strings.TrimSpace(body) + "\n") {
		line = strings.TrimSpace(line)
		for _, v := range terminalValues {
			line = v.pattern.ReplaceAllString(line, v.value)
		}
		lines = append(lines, line)
	}
	return lines
}
