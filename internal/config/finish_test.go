package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// finished is what is wrong, line by line.
func finished(d *Unvalidated) []string {
	if _, err := d.Validate(); err != nil {
		return withoutExcerpts(err)
	}
	return nil
}

// Everything is said at once, whatever kind it is, and in the words of whoever set it.
func TestFinishSaysWhoSetWhat(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "[server]\nprot = 1\nport = -1\n[log]\nlevel = 7\nformat = \"xml\"\n[scheduler.dispatch]\nmax_retry = 99\nsample_k = 0\n")
	d := Load(file, []string{"LINGUA_SCHEDULER_DISPATCH_SAMPLE_K=999", "LINGUA_SERVER_INSECURE=perhaps"})
	d.Config.Store = "sqlite"
	d.RecordSource("--store", "store")
	want := []string{
		file + ": server.prot: there is no such key; lingua config reference lists those there are",
		file + ": log.level: 7 is not a text in quotes",
		`LINGUA_SERVER_INSECURE: "perhaps" is not true or false`,
		"--store: it has no scheme; use memory, redis://host:6379/0, rediss:// for TLS, redis-sentinel://host:26379,host:26379/master/0 or redis-cluster://host:6379,host:6379",
		file + ": server.port: a port must be between 0 and 65535, not -1",
		file + `: log.format: "xml" is not known; use text or json`,
		"LINGUA_SCHEDULER_DISPATCH_SAMPLE_K: must be between 1 and 256, not 999",
		"scheduler.dispatch.scan_max: must be between sample_k (999) and 100000, not 512", // nobody set it
		file + ": scheduler.dispatch.max_retry: must be between 0 and 10, not 99",
	}
	if diff := cmp.Diff(want, finished(d)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

// A flag can mend what the file says.
func TestFlagsMend(t *testing.T) {
	t.Parallel()
	d := Load(writeFile(t, "store = \"sqlite\"\n"), nil)
	d.Config.Store = "memory"
	d.RecordSource("--store", "store")
	if c, err := d.Validate(); err != nil || c.Store != "memory" {
		t.Errorf("got %q, %v", c.Store, err)
	}
}

// What could not be read is no measure for the rest: its default was not meant.
func TestTheUnreadIsNoMeasure(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "[scheduler.dispatch]\nack_timeout_ms = \"20s\"\nattempt_timeout_ms = 1000\njob_timeout_ms = 900\n")
	want := []string{
		file + `: scheduler.dispatch.ack_timeout_ms: "20s" is not a whole number of milliseconds`,
		file + ": scheduler.dispatch.job_timeout_ms: must be more than attempt_timeout_ms (1000), not 900",
	}
	if diff := cmp.Diff(want, finished(Load(file, nil))); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	// Nor is anything judged beside a file that could not be read at all: it might have set it right.
	for _, file := range []string{writeFile(t, "[server\n"), "/does/not/exist"} {
		if got := finished(Load(file, []string{"LINGUA_SERVER_HOST=0.0.0.0"})); len(got) != 1 || !strings.Contains(got[0], file) {
			t.Errorf("got %q, want one problem of %s", got, file)
		}
	}
}

func TestExposed(t *testing.T) {
	t.Parallel()
	const every, other = " listens on every interface of this machine, ", " is not loopback: other machines may reach it, "
	for host, want := range map[string]string{
		"": ":5011" + every, "0.0.0.0": "0.0.0.0:5011" + every, "::": "[::]:5011" + every,
		"192.0.2.1": "192.0.2.1:5011" + other, "gpu-7.internal": "gpu-7.internal:5011" + other,
	} {
		got := (&Server{Host: host, Port: 5011}).exposed()
		if !strings.HasPrefix(got, want) || !strings.Contains(got, "(--listen 127.0.0.1:5011)") {
			t.Errorf("%q: got %q, want it to begin with %q", host, got, want)
		}
	}
}
