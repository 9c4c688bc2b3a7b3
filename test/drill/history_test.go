package drill

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/test/clustertest/journal"
)

// maxHistories is of how many jobs the history is printed when a drill fails.
const maxHistories = 3

var jobPattern = regexp.MustCompile(`job-[0-9a-f]{32}`)

// logHistories logs what the journals and the logs of the instances say about the jobs that are named in violations.
func (c *checker) logHistories(t *testing.T, instances []*clustertest.Instance) {
	t.Helper()
	var jobs []string
	for _, v := range c.violations {
		if job := jobPattern.FindString(v.evidence); job != "" && !slices.Contains(jobs, job) {
			jobs = append(jobs, job)
		}
	}
	if len(jobs) == 0 {
		return
	}
	logs := make(map[string][]byte, len(instances))
	for _, i := range instances {
		text, err := os.ReadFile(i.LogPath)
		if err != nil {
			t.Error(err)
		}
		logs[i.Name] = text
	}
	for _, job := range jobs[:min(len(jobs), maxHistories)] {
		t.Logf("the history of %s:\n%s", job, strings.Join(c.history(job, logs), "\n"))
	}
}

// history returns the entries and the lines of logs about a job, in the order of time. Entries about its request, which may be
// older than the job, belong to it.
func (c *checker) history(job string, logs map[string][]byte) []string {
	all := slices.Concat(c.sessions, c.nodes, c.callers)
	var requests []string
	for _, e := range all {
		if e.Job == job && e.Request != "" {
			requests = append(requests, e.Request)
		}
	}
	var lines []string
	for _, e := range all {
		if e.Job == job || slices.Contains(requests, e.Request) {
			lines = append(lines, logTime(e)+" "+e.String())
		}
	}
	for name, text := range logs {
		for line := range bytes.Lines(text) {
			if at, rest, ok := strings.Cut(string(bytes.TrimSpace(line)), " "); ok && strings.Contains(rest, job) {
				lines = append(lines, fmt.Sprintf("%s %s: %s", strings.TrimPrefix(at, "time="), name, rest))
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// logTime returns the time of an entry as logs have it.
func logTime(e journal.Entry) string {
	return time.Unix(0, e.At).UTC().Format("2006-01-02T15:04:05.000Z")
}

func TestHistoryOfAJob(t *testing.T) {
	t.Parallel()
	const job, other = "job-0123456789abcdef0123456789abcdef", "job-ffffffffffffffffffffffffffffffff"
	at := func(seconds int) int64 { return time.Unix(int64(seconds), 0).UnixNano() }
	c := checker{evidence: evidence{
		callers: []journal.Entry{
			{At: at(1), Kind: journal.CallSent, Request: "r-1"}, {At: at(2), Kind: journal.CallAccepted, Request: "r-1", Job: job},
			{At: at(2), Kind: journal.CallAccepted, Request: "r-2", Job: other}, {At: at(9), Kind: journal.Terminal, Request: "r-1", Job: job},
		},
		nodes: []journal.Entry{{At: at(5), Kind: journal.JobAcked, Job: job}},
	}}
	got := c.history(job, map[string][]byte{"i-0": []byte("time=1970-01-01T00:00:04.000Z level=INFO job_id=" + job + "\ntime=1970-01-01T00:00:04.000Z level=INFO job_id=" + other + "\n")})
	var times []string
	for _, line := range got {
		times = append(times, line[len("1970-01-01T00:00:"):][:2])
	}
	if want := []string{"01", "02", "04", "05", "09"}; !slices.Equal(times, want) {
		t.Errorf("the history has the times %v, want %v:\n%s", times, want, strings.Join(got, "\n"))
	}
}
