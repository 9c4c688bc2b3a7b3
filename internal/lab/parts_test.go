package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/wire"
)

func TestEvenArrivals(t *testing.T) {
	t.Parallel()
	a := arrivals{rate: 3, even: true}
	for range 3_000_000 {
		a.next()
	}
	if got, want := a.next(), 1_000_000*time.Second; got != want {
		t.Errorf("request 3,000,000 at 3 a second is due after %v, want %v", got, want)
	}
}

// TestPoissonArrivals checks the mean and the standard deviation of the intervals, which are equal for a Poisson process. The
// tolerance is ten standard errors.
func TestPoissonArrivals(t *testing.T) {
	t.Parallel()
	const n = 100_000
	a := arrivals{rate: 50}
	var last time.Duration
	var sum, squares float64
	for range n {
		at := a.next()
		d := (at - last).Seconds()
		last, sum, squares = at, sum+d, squares+d*d
	}
	mean := sum / n
	deviation := math.Sqrt(squares/n - mean*mean)
	if math.Abs(mean-0.02) > 0.02*0.032 || math.Abs(deviation-0.02) > 0.02*0.1 {
		t.Errorf("mean interval %v, standard deviation %v, want 0.02 for both", mean, deviation)
	}
}

func TestParsePair(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Pair{
		"en-zh": {"en", "zh"}, "en:zh": {"en", "zh"}, "en-US:zh-Hant-TW": {"en-US", "zh-TW"}, "cmn-EN": {"zh", "en"}, "qaa-qab": PrivatePair,
	} {
		if got, err := ParsePair(text); err != nil || got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "en", "en-", "-zh", "en-zh-TW", "en:en", "zh-cmn", "en:", "x-y", "en→zh", strings.Repeat("q", 200)} {
		if got, err := ParsePair(text); err == nil || len(err.Error()) > 200 {
			t.Errorf("%q is %v, %v; want a short error", text, got, err)
		}
	}
}

func TestPrivateUse(t *testing.T) {
	t.Parallel()
	for pair, want := range map[Pair]bool{
		PrivatePair: true, {"qtz", "qaa"}: true, {"qaa", "en"}: false, {"en", "qaa"}: false, {"qua", "qub"}: false, {"qaa-x-a", "qab"}: false, {"que", "qaa"}: false,
	} {
		if got := pair.privateUse(); got != want {
			t.Errorf("%s: %v", pair, got)
		}
	}
}

// TestNumberOfSessions checks the number that is chosen, and that too few are refused.
func TestNumberOfSessions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode   Mode
		rate   float64
		speech time.Duration
		want   int
	}{
		{HTTP, 0.5, time.Second, 1}, {HTTP, 20, time.Minute, 5}, {Sockets, 30, time.Second, 50}, {Sockets, 40, 100 * time.Millisecond, 10},
	} {
		cfg := LoadConfig{Mode: c.mode, Rate: c.rate, Speech: c.speech, Pairs: []Pair{PrivatePair}}.withDefaults()
		if err := cfg.Validate(); cfg.Sessions != c.want || err != nil {
			t.Errorf("%+v: %d sessions, %v", c, cfg.Sessions, err)
		}
	}
	cfg := LoadConfig{Mode: Sockets, Rate: 30, Speech: time.Second, Pairs: []Pair{PrivatePair}, Sessions: 33}
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "34 sessions or more") {
		t.Errorf("33 sessions that speak 30 s of each second: %v", err)
	}
	if cfg.Sessions = 34; cfg.Validate() != nil {
		t.Error(cfg.Validate())
	}
}

func TestFailureOf(t *testing.T) {
	t.Parallel()
	refusal := &wire.Error{Code: wire.AllCandidatesFullOrFailed, Detail: "d", Reasons: map[string]int{"A": 1, "C": 2, "B": 2}}
	for want, err := range map[failure]error{
		{"ALL_CANDIDATES_FULL_OR_FAILED", "B", "d"}:                                 fmt.Errorf("wrapped: %w", refusal),
		{"TIMEOUT", "", "no outcome in time"}:                                       &url.Error{Op: "Post", URL: "http://user:secret@host", Err: context.DeadlineExceeded},
		{"CONNECTION", "", "refused"}:                                               &url.Error{Op: "Post", URL: "http://user:secret@host", Err: errors.New("refused")},
		{"CONNECTION", "", "client: the scheduler closed the connection with 4429"}: &client.ConnectionError{Code: 4429},
	} {
		if diff := cmp.Diff(want, failureOf(err), cmp.AllowUnexported(failure{})); diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
}

// TestWarmupIsNotMeasured checks that requests of the warm-up are counted apart.
func TestWarmupIsNotMeasured(t *testing.T) {
	t.Parallel()
	rec := newRecorder(time.Minute)
	now := time.Now()
	for _, measured := range []bool{false, true} {
		for i := range 3 {
			q := request{number: i, due: now, measured: measured}
			rec.plan(q)
			rec.send(q, now.Add(time.Millisecond))
			if i == 0 {
				rec.fail(q, failure{code: "X", detail: "first"})
				continue
			}
			s := newSample()
			s[whole] = time.Second
			rec.finish(q, s)
		}
	}
	r := &loadRun{cfg: testConfig(HTTP, ""), recorder: rec, started: now, ended: now.Add(10 * time.Second)}
	report := r.report(false)
	want := Requests{Planned: 3, Sent: 3, Done: 2, Failed: 1, Seconds: 9.9, SentRate: 3 / 9.9, DoneRate: 2 / 9.9, Warmup: 3, WarmupFailed: 1}
	if diff := cmp.Diff(want, report.Requests); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if report.Latency.Whole.Count != 2 || report.Latency.Lag.Count != 3 || report.Latency.Dispatch != nil {
		t.Errorf("%+v", report.Latency)
	}
	if diff := cmp.Diff([]FailureReport{{Code: "X", Count: 1, Detail: "first"}}, report.Failures); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
}

// TestHistogramIsPrecise checks the error of percentiles and of the buckets of the report, and that the buckets are complete.
func TestHistogramIsPrecise(t *testing.T) {
	t.Parallel()
	r := NewLatencyRecorder(10 * time.Minute)
	const n = 100_000
	for i := range n {
		r.Record(time.Duration(i+1) * 317 * time.Microsecond)
	}
	l := summarise(r)
	near := func(name string, got, want, tolerance float64) {
		if math.Abs(got/want-1) > tolerance {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	for name, c := range map[string][2]float64{"p50": {l.P50MS, 0.5}, "p90": {l.P90MS, 0.9}, "p95": {l.P95MS, 0.95}, "p99": {l.P99MS, 0.99}, "p99.9": {l.P999MS, 0.999}, "max": {l.MaxMS, 1}} {
		near(name, c[0], c[1]*n*0.317, 0.001)
	}
	near("mean", l.MeanMS, 0.317*(n+1)/2, 1e-6)
	count, last := int64(0), 0.0
	for _, b := range l.Histogram {
		if b.Count == 0 || b.FromMS < last || b.ToMS-b.FromMS > max(0.01*b.ToMS, 0.001001) {
			t.Fatalf("bucket %+v after %v", b, last)
		}
		count, last = count+b.Count, b.ToMS
	}
	if count != n || len(l.Histogram) > 2000 {
		t.Errorf("%d durations in %d buckets", count, len(l.Histogram))
	}
}

// TestAssignedTime checks that only results of the same run are used.
func TestAssignedTime(t *testing.T) {
	t.Parallel()
	c := clock{run: "a", start: time.Now()}
	if at, ok := c.assignedAt(json.RawMessage(`{"bench_run":"a","bench_assigned_us":1500}`)); !ok || at.Sub(c.start) != 1500*time.Microsecond {
		t.Errorf("%v %v", at, ok)
	}
	for _, result := range []string{"", "null", "{}", `[]`, `{"bench_run":"b","bench_assigned_us":1500}`, `{"bench_run":"a","bench_assigned_us":"x"}`} {
		if at, ok := c.assignedAt(json.RawMessage(result)); ok {
			t.Errorf("%q: %v", result, at)
		}
	}
}

// TestSummary checks the summary of a run as text.
func TestSummary(t *testing.T) {
	t.Parallel()
	rec := newRecorder(time.Minute)
	started := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i := range 10 {
		q := request{number: i, due: started, measured: true}
		rec.plan(q)
		rec.send(q, started.Add(100*time.Microsecond))
		if i == 9 {
			rec.fail(q, failure{code: "FULL", reason: "NODE_FULL", detail: "no \x1b[31mslot"})
			continue
		}
		s := newSample()
		s[dispatch], s[whole] = time.Millisecond, time.Duration(i+1)*100*time.Millisecond
		rec.finish(q, s)
	}
	cfg := testConfig(HTTP, "")
	cfg.Nodes, cfg.Warmup, cfg.Duration, cfg.Rate, cfg.Sessions = 0, 0, 10*time.Second, 1, 3
	cfg.Version = wire.VersionResponse{Version: "1.2.3", Commit: "0123456789abcdef"}
	r := &loadRun{
		cfg: cfg, name: "bench-x", recorder: rec, started: started, ended: started.Add(10 * time.Second),
		schedulers: []Scheduler{{URL: "http://127.0.0.1:5010", Version: "1.2.2"}},
	}
	report := r.report(false)
	report.judge(&r.cfg)
	want := `lingua bench 1.2.3 (0123456789ab)
scheduler  1.2.2 at http://127.0.0.1:5010
run        bench-x, 2026-01-02T03:04:05Z
load       1 a second (poisson) for 10 s after 0 s of warm-up, qaa→qab
mode       http, 3 session ids, a job is read every 10 ms
nodes      those of the scheduler

sent       10 of 10 in 10 s: 1.0 a second of 1 asked
done       9 (0.9 a second)
failed     1 (10.00 %)
  1 × FULL NODE_FULL: "no \x1b[31mslot"

   latency     mean      p50      p90      p95      p99    p99.9      max
  dispatch  1.00 ms  1.00 ms  1.00 ms  1.00 ms  1.00 ms  1.00 ms  1.00 ms
     whole   500 ms   500 ms   800 ms   900 ms   900 ms   900 ms   900 ms
       lag  0.10 ms  0.10 ms  0.10 ms  0.10 ms  0.10 ms  0.10 ms  0.10 ms
Latencies count from when a request was due.
  dispatch  request to answer
  whole     request to result
  lag       how late the generator was

dispatch, 9 requests
  ≤  1.41 ms       9  100.00 %  ████████████████████████████████████████

whole, 9 requests
  ≤   128 ms       1   11.11 %  ████████████████████
  ≤   181 ms       0   11.11 %
  ≤   256 ms       1   22.22 %  ████████████████████
  ≤   362 ms       1   33.33 %  ████████████████████
  ≤   512 ms       2   55.56 %  ████████████████████████████████████████
  ≤   724 ms       2   77.78 %  ████████████████████████████████████████
  ≤   1.02 s       2  100.00 %  ████████████████████████████████████████

lag, 10 requests
  ≤  0.12 ms      10  100.00 %  ████████████████████████████████████████

note: with fewer than 1000 results, p99.9 is one of the two slowest
the run is valid
`
	if diff := cmp.Diff(want, report.text(true)); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
}

// TestSummaryOfNodes checks that the summary says whether a node was sent more jobs than its slots, and what is left of the nodes.
func TestSummaryOfNodes(t *testing.T) {
	t.Parallel()
	cfg := testConfig(HTTP, "")
	for want, nodes := range map[string]NodesReport{
		"slots      no node was sent more jobs than its slots\n":                  {},
		"slots      3 JOBS WERE SENT TO NODES WITHOUT A FREE SLOT\n":              {OverAssigned: 3},
		"note: 1 stand-in nodes ended during the run\n":                           {Lost: 1},
		"note: slots of 2 stand-in nodes are still taken\n":                       {StillBusy: 2},
		"note: 2 stand-in nodes could not leave; the scheduler lists them until ": {StillListed: 2},
		"note: what is left of 2 stand-in nodes could not be read\n":              {Unknown: 2},
	} {
		report := (&loadRun{cfg: cfg, recorder: newRecorder(time.Minute)}).report(false)
		report.Nodes = &nodes
		report.judge(&cfg)
		if text := report.text(true); !strings.Contains(text, want) || !strings.Contains(text, "INVALID: no request was sent") {
			t.Errorf("%+v: want %q in\n%s", nodes, want, text)
		}
	}
}

// TestReportIsDocumented checks that docs/load-testing.md names every field of the JSON report.
func TestReportIsDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/load-testing.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	var check func(reflect.Type)
	check = func(r reflect.Type) {
		for r.Kind() == reflect.Pointer || r.Kind() == reflect.Slice {
			r = r.Elem()
		}
		if r.Kind() != reflect.Struct || r == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range r.NumField() {
			name, _, _ := strings.Cut(r.Field(i).Tag.Get("json"), ",")
			if seen++; name == "" || !strings.Contains(string(page), "`"+name+"`") {
				t.Errorf("the page does not name the field %q of %s", name, r)
			}
			check(r.Field(i).Type)
		}
	}
	check(reflect.TypeFor[Report]())
	if seen < 60 {
		t.Errorf("only %d fields were found", seen)
	}
}
