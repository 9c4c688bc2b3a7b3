package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/bench/stats"
	"github.com/lingua-scheduler/lingua/test/redistest"
)

const (
	growthNodes      = 50 // of four slots
	growthSubmitters = 64 // in all
	growthTurns      = 5
	growthWindow     = time.Second
)

// BenchmarkGrowth dispatches jobs from 64 submitters through one, two and three instances in turn: the same nodes and the
// same load, more instances. A submitter continues when the dispatch, the ACK and the result of its job are done. All three
// instances run all the time.
func BenchmarkGrowth(b *testing.B) {
	for b.Loop() {
		rows := [][]string{{
			"", "instances", "jobs/s", "of one", "p50", "p99", "Redis, cores", "instances, cores", "the busiest", "Redis, µs a job", "instances, µs a job",
		}}
		given := measureGrowth(b, "2,000 a second", submitPaced, &rows)
		b.ReportMetric(given[2][busiestCores]/given[0][busiestCores], "busiest-of-one")
		b.ReportMetric(measureGrowth(b, "no limit", submitInProcess, &rows)[2][ofOne], "jobs-of-one")
		b.ReportMetric(measureGrowth(b, "no limit, HTTP", submitOverHTTP, &rows)[2][ofOne], "http-jobs-of-one")
		printTable("The same load through more instances", rows)
	}
	b.ReportMetric(0, "ns/op")
}

// load dispatches jobs through instances for a while.
type load func(through []*instance, during time.Duration) (loadResult, error)

// loadResult is how many jobs were done, and how long some of them took.
type loadResult struct {
	jobs      int
	latencies []time.Duration
}

// The columns of a turn.
const (
	rate = iota
	ofOne
	p50
	p99
	redisCores
	allCores
	busiestCores
	redisCost
	allCost
	columns
)

// measureGrowth measures one, two and three instances in turn, and returns the medians of each.
func measureGrowth(b *testing.B, name string, do load, rows *[][]string) (medians [3][columns]float64) {
	server := redistest.Start(b)
	all := startInstances(b, server.URL(), 3)
	registerNodes(b, all)
	if _, err := do(all, growthWindow/2); err != nil { // warm-up
		b.Fatal(err)
	}
	var turns [3][columns][]float64
	for range growthTurns {
		for n := range all {
			turn := measureTurn(b, server, all, n+1, do)
			for c := range turn {
				turns[n][c] = append(turns[n][c], turn[c])
			}
			last := len(turns[0][rate]) - 1
			turns[n][ofOne][last] = turn[rate] / turns[0][rate][last]
		}
	}
	for n := range turns {
		row := []string{name, strconv.Itoa(n + 1)}
		for c, format := range []string{"%.0f", "%.2f", "%.2f ms", "%.2f ms", "%.2f", "%.2f", "%.2f", "%.0f", "%.0f"} {
			medians[n][c] = stats.Median(turns[n][c])
			row = append(row, fmt.Sprintf(format, medians[n][c]))
		}
		*rows = append(*rows, row)
	}
	return medians
}

// measureTurn measures one turn, through the first instances.
func measureTurn(b *testing.B, server *redistest.Server, all []*instance, through int, do load) (turn [columns]float64) {
	redis, busy, began := redisCPU(b, server), cpuTimes(b, all), time.Now()
	d, err := do(all[:through], growthWindow)
	if err != nil {
		b.Fatal(err)
	}
	took := time.Since(began).Seconds()
	turn[rate], turn[redisCores] = float64(d.jobs)/took, (redisCPU(b, server)-redis).Seconds()/took
	for i, now := range cpuTimes(b, all) {
		cores := (now - busy[i]).Seconds() / took
		turn[allCores] += cores
		turn[busiestCores] = max(turn[busiestCores], cores)
	}
	if len(d.latencies) > 0 {
		turn[p50], turn[p99] = milliseconds(stats.Median(d.latencies)), milliseconds(stats.Percentile(d.latencies, 0.99))
	}
	turn[redisCost], turn[allCost] = 1e6*turn[redisCores]/turn[rate], 1e6*turn[allCores]/turn[rate]
	return turn
}

// registerNodes registers nodes inside of the instances, and returns when all instances know them.
func registerNodes(tb testing.TB, all []*instance) {
	tb.Helper()
	if _, err := all[0].send(command{Register: growthNodes}); err != nil {
		tb.Fatal(err)
	}
	waitNodes(tb, all, growthNodes)
}

// submitInProcess runs the submitters inside of the instances.
func submitInProcess(through []*instance, during time.Duration) (loadResult, error) {
	return submit(through, command{For: during})
}

// submitPaced does the same at a rate that one instance can serve easily.
func submitPaced(through []*instance, during time.Duration) (loadResult, error) {
	return submit(through, command{For: during, Rate: 2000 / len(through)})
}

// submit sends a share of a command to each instance, at the same time.
func submit(through []*instance, cmd command) (loadResult, error) {
	answers, errs := make([]report, len(through)), make([]error, len(through))
	var all sync.WaitGroup
	for n, i := range through {
		share := cmd
		share.Submitters = (growthSubmitters + n) / len(through)
		all.Go(func() { answers[n], errs[n] = i.send(share) })
	}
	all.Wait()
	var d loadResult
	for _, a := range answers {
		d.jobs += a.Jobs
		d.latencies = append(d.latencies, a.Latencies...)
	}
	return d, errors.Join(errs...)
}

// submitOverHTTP runs the submitters here. Each uses the instances in turn.
func submitOverHTTP(through []*instance, during time.Duration) (loadResult, error) {
	body := []byte(`{"session_id":"room-888","src_lang":"en","tgt_lang":"zh","audio_ref":"blob://a","options":{"require_tts":false,"preferred_node_id":null}}`)
	transport := &http.Transport{MaxIdleConnsPerHost: growthSubmitters}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	took, errs := make([][]time.Duration, growthSubmitters), make([]error, growthSubmitters)
	var all sync.WaitGroup
	began := time.Now()
	for n := range growthSubmitters {
		all.Go(func() {
			for k := n; time.Since(began) < during; k++ {
				at := time.Now()
				resp, err := client.Post(through[k%len(through)].url+"/v1/dispatch/f2f", "application/json", bytes.NewReader(body))
				if err != nil {
					errs[n] = err
					return
				}
				answer, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					errs[n] = fmt.Errorf("%s %s", resp.Status, answer)
					return
				}
				took[n] = append(took[n], time.Since(at))
			}
		})
	}
	all.Wait()
	d := loadResult{latencies: slices.Concat(took...)}
	d.jobs = len(d.latencies)
	return d, errors.Join(errs...)
}

// cpuTimes returns the CPU time of each instance so far.
func cpuTimes(tb testing.TB, all []*instance) []time.Duration {
	tb.Helper()
	list := make([]time.Duration, len(all))
	for n, i := range all {
		a, err := i.send(command{})
		if err != nil {
			tb.Fatal(err)
		}
		list[n] = a.CPU
	}
	return list
}

// redisCPU returns the CPU time of a Redis server so far.
func redisCPU(tb testing.TB, server *redistest.Server) (sum time.Duration) {
	tb.Helper()
	reply, err := server.Do("INFO", "cpu")
	if err != nil {
		tb.Fatal(err)
	}
	text, _ := reply.(string)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user" || name == "used_cpu_sys" {
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				tb.Fatal(err)
			}
			sum += time.Duration(seconds * float64(time.Second))
		}
	}
	return sum
}

// TestInstancesShareLoad checks that jobs through three instances at once all end and leave no slot taken.
func TestInstancesShareLoad(t *testing.T) {
	t.Parallel()
	const each = 200
	server := redistest.Start(t)
	all := startInstances(t, server.URL(), 3)
	registerNodes(t, all)
	d, err := submit(all, command{Jobs: each})
	if err != nil || d.jobs != each*len(all) {
		t.Errorf("%d jobs were dispatched, want %d: %v", d.jobs, each*len(all), err)
	}
	if got := countKeys(t, server, "*:fsm"); got != each*len(all) {
		t.Errorf("%d jobs have a record, want %d", got, each*len(all))
	}
	// A lease exists until its job has ended. Its release is asynchronous.
	eventually(t, func() error {
		if left := countKeys(t, server, "*:leases"); left > 0 {
			return fmt.Errorf("%d nodes still have leases", left)
		}
		return nil
	})
}

// countKeys returns how many keys match a pattern.
func countKeys(tb testing.TB, server *redistest.Server, pattern string) int {
	tb.Helper()
	reply, err := server.Do("KEYS", pattern)
	if err != nil {
		tb.Fatal(err)
	}
	list, _ := reply.([]any)
	return len(list)
}
