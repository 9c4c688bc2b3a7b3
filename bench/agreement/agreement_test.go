package agreement

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/lingua-scheduler/lingua/internal/lab"
	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/test/redistest"
)

var (
	rate   = flag.Float64("rate", 20, "requests a second")
	during = flag.Duration("during", 3*time.Second, "how long the load lasts")
	within = flag.Float64("within", 0, "the maximum difference, as a fraction; 0: the differences are only printed")
)

// workArgs are the arguments of the stand-in nodes. Their work takes so long that what only one side measures (the network and
// the HTTP request, which take 1 to 2 ms) hardly counts. It is distributed so that the bounds of the scheduler's buckets, which
// are powers of two milliseconds, are close to the median, the 87th and the 99th percentile.
var workArgs = []string{"--nodes", "8", "--slots", "16", "--work", "512ms", "--work-spread", "0.6"}

// maxRuns is how often a run is made that is to be judged, until one is fit for it: the load generator was on time, and nothing
// failed. On a machine that others use at the same time it may not be.
const maxRuns = 3

// minBeyond is how many observations must be on both sides of a bound for it to be compared: with fewer, the distance between
// two neighbouring observations is as large as the allowed difference.
const minBeyond = 50

// TestMetricsAgree runs `lingua bench` against a scheduler over Redis and compares its latencies with the scheduler's own
// histograms. The buckets of those double in width, so a quantile that is interpolated in them is not known to 5 %. But at the
// bound of a bucket the scheduler knows exactly how many observations are below: the bound is that quantile. The same quantile
// of `lingua bench` is compared with it, and the means are compared. In full, on a machine that does nothing else:
//
//	make bench-agreement
func TestMetricsAgree(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs processes of the scheduler")
	}
	binary, err := clustertest.Build(t.TempDir(), "lingua")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		mode            string
		metric, labels  string // of the latency called whole
		further, series string // a metric of the dispatch, which is only printed
	}{
		{"http", "lingua_job_duration_seconds", `state="DONE"`, "lingua_dispatch_duration_seconds", `outcome="accepted"`},
		{"sockets", "lingua_utterance_duration_seconds", `outcome="result"`, "lingua_dispatch_duration_seconds", `outcome="accepted"`},
	} {
		t.Run(c.mode, func(t *testing.T) {
			if *within == 0 { // the differences are only printed
				t.Parallel()
			}
			instance := startScheduler(t, binary)
			var before, after string
			var report *lab.Report
			var served histogram
			fit := false
			for run := 1; !fit && (run == 1 || *within > 0 && run <= maxRuns); run++ {
				before = scrape(t, instance)
				report = runBench(t, binary, append([]string{"--mode", c.mode, "--server", instance.URL()}, workArgs...)...)
				after = scrape(t, instance)
				served = difference(t, before, after, c.metric, c.labels)
				if want := float64(report.Requests.Done); served.count != want || want == 0 {
					t.Fatalf("the scheduler counts %v results, lingua bench %v; its failures are %+v", served.count, want, report.Failures)
				}
				if fit = report.Valid && report.Requests.Failed == 0; !fit {
					t.Logf("run %d is not fit for a comparison: %v %+v", run, report.Invalid, report.Failures)
				}
			}
			if !fit && *within > 0 {
				t.Errorf("none of %d runs is fit for a comparison: the machine is too busy", maxRuns)
			}
			t.Logf("whole of lingua bench, %s{%s} of the scheduler, %v a second for %v\n%s",
				c.metric, c.labels, *rate, *during, compare(t, report.Latency.Whole, served, fit))
			t.Logf("dispatch of lingua bench, %s{%s} of the scheduler: not judged, because lingua bench also measures what is around it\n%s",
				c.further, c.series, compare(t, report.Latency.Dispatch, difference(t, before, after, c.further, c.series), false))
		})
	}
}

// startScheduler starts Redis and a scheduler over it, which stop at the end of the test.
func startScheduler(t *testing.T, binary string) *clustertest.Instance {
	t.Helper()
	redis := redistest.Start(t)
	i := clustertest.NewInstance(t, "agreement", binary, filepath.Join(t.TempDir(), "serve.log"))
	// On a busy machine nodes are slow to acknowledge.
	i.Env = []string{
		"LINGUA_STORE=" + redis.URL(), "LINGUA_SCHEDULER_DISPATCH_ACK_TIMEOUT_MS=10000", "LINGUA_SCHEDULER_TASK_BINDING_RESERVED_TTL_SECONDS=60",
	}
	if err := i.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return i
}

// runBench runs `lingua bench` without a warm-up, so that both sides measure the same requests, and returns its report. An
// exit code for an invalid run is not an error here.
func runBench(t *testing.T, binary string, args ...string) *lab.Report {
	t.Helper()
	args = append([]string{"bench", "--json", "-", "--warmup", "0s", "--rate", fmt.Sprint(*rate), "--duration", during.String()}, args...)
	cmd := exec.CommandContext(t.Context(), binary, args...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	report := new(lab.Report)
	if json.Unmarshal(out, report) != nil || report.Latency.Whole == nil {
		t.Fatalf("lingua %s: %v\n%s\n%s", strings.Join(args, " "), err, out, errs.String())
	}
	return report
}

func scrape(t *testing.T, i *clustertest.Instance) string {
	t.Helper()
	body, err := i.Get(t.Context(), "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// difference returns the observations of a histogram between two scrapes.
func difference(t *testing.T, before, after, metric, labels string) histogram {
	t.Helper()
	first, err := parseHistogram(before, metric, labels)
	if err != nil {
		t.Fatal(err)
	}
	last, err := parseHistogram(after, metric, labels)
	if err != nil {
		t.Fatal(err)
	}
	return last.since(first)
}

// compare compares a latency of a report with the scheduler's histogram and returns a table. If it is judged, a difference
// above -within fails the test.
func compare(t *testing.T, measured *lab.Latency, served histogram, judged bool) string {
	t.Helper()
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tscheduler\tlingua bench\tdifference\t")
	row := func(name string, server, bench float64) {
		difference := bench/server - 1
		fmt.Fprintf(w, "%s\t%.2f ms\t%.2f ms\t%+.2f %%\t\n", name, 1000*server, 1000*bench, 100*difference)
		if judged && *within > 0 && math.Abs(difference) > *within {
			t.Errorf("%s: the scheduler has %.2f ms, lingua bench %.2f ms: %.2f %% more", name, 1000*server, 1000*bench, 100*difference)
		}
	}
	row("mean", served.sum/served.count, measured.MeanMS/1000)
	for i, bound := range served.bounds {
		if n := served.cumulative[i]; n >= minBeyond && served.count-n >= minBeyond {
			share, next := n/served.count, (n+1)/served.count
			// The bound is between two observations of the scheduler, and is compared with the middle between the same two.
			row(fmt.Sprintf("p%.2f", 100*share), bound, (quantileOf(measured, share)+quantileOf(measured, next))/2)
		}
	}
	_ = w.Flush()
	for _, p := range []struct {
		name string
		q    float64
		ms   float64
	}{{"p50", 0.5, measured.P50MS}, {"p90", 0.9, measured.P90MS}, {"p95", 0.95, measured.P95MS}, {"p99", 0.99, measured.P99MS}} {
		low, high, interpolated := served.quantile(p.q)
		fmt.Fprintf(&b, "%s of lingua bench is %.2f ms; the scheduler's is between %.2f ms and %.2f ms, interpolated %.2f ms\n",
			p.name, p.ms, 1000*low, 1000*high, 1000*interpolated)
		if judged && *within > 0 && (p.ms/1000 < low*(1-*within) || p.ms/1000 > high*(1+*within)) {
			t.Errorf("%s of lingua bench is %.2f ms, which is not in the scheduler's bucket", p.name, p.ms)
		}
	}
	return b.String()
}
