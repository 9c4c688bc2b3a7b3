package dashtest

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lingua-scheduler/lingua/bench/inprocess"
	"github.com/lingua-scheduler/lingua/bench/stats"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
)

var (
	listedNodes = flag.Int("listed-nodes", 10_000, "how many nodes BenchmarkFrames lists")
	listedJobs  = flag.Int("listed-jobs", 100_000, "how many jobs BenchmarkFrames lists")
	dashboards  = flag.Int("dashboards", 50, "how many dashboards are open")
	rounds      = flag.Int("rounds", 5, "how many windows of each kind are measured")
	window      = flag.Duration("window", 20*time.Second, "how long a window is")
	pictures    = flag.String("pictures", "", "the directory for the pictures of BenchmarkScreenshots")
)

// BenchmarkFirstPaint measures the first contentful paint of the dashboard with an empty cache, each time in a browser of its own.
func BenchmarkFirstPaint(b *testing.B) {
	_, url := inprocess.Serve(b, 100, 8)
	for b.Loop() {
		var out struct {
			Paints []float64
			Bytes  int
		}
		decode(b, RunProgram(b, "paint.mjs", Arguments{URL: url, Runs: 10}), &out)
		b.Logf("first contentful paint, ms: %v; %d bytes were loaded", out.Paints, out.Bytes)
		b.ReportMetric(stats.Median(out.Paints), "ms-median")
		b.ReportMetric(slices.Max(out.Paints), "ms-max")
	}
}

// BenchmarkFrames measures the longest frame while many nodes and jobs are listed and searched.
func BenchmarkFrames(b *testing.B) {
	s, url := inprocess.Serve(b, *listedNodes, 16, func(c *config.Config) { c.Scheduler.TaskBinding.LeaseSeconds = 3600 })
	dispatchMany(b, s, *listedJobs)
	for b.Loop() {
		var out struct {
			Counts   map[string]int
			Longest  map[string]struct{ Frame, Task, Frames float64 }
			Problems []string
		}
		decode(b, RunProgram(b, "frames.mjs", Arguments{URL: url, Nodes: *listedNodes, Jobs: *listedJobs}), &out)
		b.Logf("listed: %v; problems: %v", out.Counts, out.Problems)
		frame, task := 0.0, 0.0
		for name, l := range out.Longest {
			b.Logf("%-24s longest frame %4.0f ms, longest task %4.0f ms, %.0f frames", name, l.Frame, l.Task, l.Frames)
			frame, task = max(frame, l.Frame), max(task, l.Task)
		}
		b.ReportMetric(frame, "ms-frame")
		b.ReportMetric(task, "ms-task")
	}
}

// dispatchMany dispatches jobs, which end at once.
func dispatchMany(b *testing.B, s *scheduler.Scheduler, count int) {
	b.Helper()
	var workers sync.WaitGroup
	next := make(chan int)
	for range 32 {
		workers.Go(func() {
			for i := range next {
				_, err := s.Jobs.Dispatch(b.Context(), dispatch.Request{Unique: true, Spec: core.Spec{
					Request: core.RequestID(uuid.NewString()), Session: core.SessionID(fmt.Sprint("room-", i%1000)), Direction: core.Direction{Src: "en", Tgt: "zh"},
				}})
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	for i := range count {
		next <- i
	}
	close(next)
	workers.Wait()
}

// BenchmarkServer measures how much of a processor an instance uses with and without open dashboards, in alternating windows, with the fleet
// of the demo. The dashboards do what one in a browser did.
func BenchmarkServer(b *testing.B) {
	c := startCluster(b, 1, conversations)
	recording := RunProgram(b, "record.mjs", Arguments{URL: c.balancer.URL(), Keys: keys, LastsMS: 30_000})
	b.Logf("an open overview: %s", recording)
	pid := c.instances[0].Process.Pid
	for b.Loop() {
		var without, with []float64
		for range *rounds {
			without = append(without, cpuShare(b, pid, *window))
			stop := OpenDashboards(b, Arguments{URL: c.balancer.URL(), Keys: keys, Dashboards: *dashboards, Recording: recording})
			with = append(with, cpuShare(b, pid, *window))
			b.Logf("the dashboards: %s", stop())
		}
		b.Logf("share of one processor, without: %.3f, with %d dashboards: %.3f", without, *dashboards, with)
		b.ReportMetric(100*stats.Median(without), "%-without")
		b.ReportMetric(100*stats.Median(with), "%-with")
		b.ReportMetric(100*(stats.Median(with)-stats.Median(without)), "%-dashboards")
	}
}

// cpuShare returns how much of one processor a process used in a while.
func cpuShare(b *testing.B, pid int, d time.Duration) float64 {
	b.Helper()
	before, began := cpuTime(b, pid), time.Now()
	run.Sleep(b.Context(), d)
	return (cpuTime(b, pid) - before).Seconds() / time.Since(began).Seconds()
}

// cpuTime returns the time that a process has run: utime and stime of /proc/PID/stat, in ticks of 10 ms.
func cpuTime(b *testing.B, pid int) time.Duration {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	sum := 0
	for _, f := range fields[11:13] {
		n, err := strconv.Atoi(f)
		if err != nil {
			b.Fatal(err)
		}
		sum += n
	}
	return time.Duration(sum) * 10 * time.Millisecond
}

// BenchmarkScreenshots makes the pictures of the README.
func BenchmarkScreenshots(b *testing.B) {
	if *pictures == "" {
		b.Skip("make screenshots gives the directory")
	}
	c := startCluster(b, 3, 32)
	for b.Loop() {
		RunProgram(b, "screenshots.mjs", Arguments{URL: c.balancer.URL(), Keys: keys, Pictures: *pictures})
	}
}

// decode decodes what a program printed.
func decode(b *testing.B, printed []byte, out any) {
	b.Helper()
	if err := json.Unmarshal(printed, out); err != nil {
		b.Fatalf("%v\n%s", err, printed)
	}
}
