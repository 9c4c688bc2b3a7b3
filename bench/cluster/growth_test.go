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

	"github.com/lingua-scheduler/lingua/internal/redistest"
)

const (
	growthNodes      = 50 // of four slots
	growthSubmitters = 64 // in all
	growthTurns      = 5
	growthWindow     = time.Second
)

// BenchmarkGrowth has 64 submitters dispatch jobs through one, two and three instances, which take turns: as many nodes,
// the same load, more instances. A job's dispatch, ACK and result are done when its submitter goes on. All three
// instances are there all the time.
func BenchmarkGrowth(b *testing.B) {
	for b.Loop() {
		rows := [][]string{{
			"", "instances", "jobs/s", "of one", "p50", "p99", "Redis, cores", "instances, cores", "the busiest", "Redis, µs a job", "instances, µs a job",
		}}
		given := growth(b, "2,000 a second", paced, &rows)
		b.ReportMetric(given[2][busiestCores]/given[0][busiestCores], "busiest-of-one")
		b.ReportMetric(growth(b, "all they can", within, &rows)[2][ofOne], "jobs-of-one")
		b.ReportMetric(growth(b, "all they can, HTTP", overHTTP, &rows)[2][ofOne], "http-jobs-of-one")
		table("The same load through more instances", rows)
	}
	b.ReportMetric(0, "ns/op")
}

// load has instances do jobs for a while.
type load func(through []*instance, during time.Duration) (done, error)

// done is how many jobs were done, and how long some of them took.
type done struct {
	jobs int
	took []time.Duration
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

// growth lets one, two and three instances take turns, and returns the medians of each.
func growth(b *testing.B, name string, do load, rows *[][]string) (medians [3][columns]float64) {
	server := redistest.Start(b)
	all := start(b, server.URL(), 3)
	populate(b, all)
	if _, err := do(all, growthWindow/2); err != nil { // all begin warm
		b.Fatal(err)
	}
	var turns [3][columns][]float64
	for range growthTurns {
		for n := range all {
			turn := measure(b, server, all, n+1, do)
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
			medians[n][c] = median(turns[n][c])
			row = append(row, fmt.Sprintf(format, medians[n][c]))
		}
		*rows = append(*rows, row)
	}
	return medians
}

// measure is one turn, through the first few of the instances.
func measure(b *testing.B, server *redistest.Server, all []*instance, through int, do load) (turn [columns]float64) {
	redis, busy, began := processor(b, server), spent(b, all), time.Now()
	d, err := do(all[:through], growthWindow)
	if err != nil {
		b.Fatal(err)
	}
	took := time.Since(began).Seconds()
	turn[rate], turn[redisCores] = float64(d.jobs)/took, (processor(b, server)-redis).Seconds()/took
	for i, now := range spent(b, all) {
		cores := (now - busy[i]).Seconds() / took
		turn[allCores] += cores
		turn[busiestCores] = max(turn[busiestCores], cores)
	}
	if len(d.took) > 0 {
		turn[p50], turn[p99] = inMS(median(d.took)), inMS(part(d.took, 0.99))
	}
	turn[redisCost], turn[allCost] = 1e6*turn[redisCores]/turn[rate], 1e6*turn[allCores]/turn[rate]
	return turn
}

// populate registers nodes that live in the instances, and returns when all of these know them.
func populate(tb testing.TB, all []*instance) {
	tb.Helper()
	if _, err := all[0].ask(order{Register: growthNodes}); err != nil {
		tb.Fatal(err)
	}
	awaitNodes(tb, all, growthNodes)
}

// within has the submitters in the instances themselves.
func within(through []*instance, during time.Duration) (done, error) {
	return submit(through, order{For: during})
}

// paced does so too, at a rate that one instance bears easily.
func paced(through []*instance, during time.Duration) (done, error) {
	return submit(through, order{For: during, Rate: 2000 / len(through)})
}

// submit has each instance do its part of an order, at the same time.
func submit(through []*instance, o order) (done, error) {
	answers, errs := make([]answer, len(through)), make([]error, len(through))
	var all sync.WaitGroup
	for n, i := range through {
		share := o
		share.Submitters = (growthSubmitters + n) / len(through)
		all.Go(func() { answers[n], errs[n] = i.ask(share) })
	}
	all.Wait()
	var d done
	for _, a := range answers {
		d.jobs += a.Jobs
		d.took = append(d.took, a.Took...)
	}
	return d, errors.Join(errs...)
}

// overHTTP has the submitters here: each takes the instances in turn.
func overHTTP(through []*instance, during time.Duration) (done, error) {
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
				said, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					errs[n] = fmt.Errorf("%s %s", resp.Status, said)
					return
				}
				took[n] = append(took[n], time.Since(at))
			}
		})
	}
	all.Wait()
	d := done{took: slices.Concat(took...)}
	d.jobs = len(d.took)
	return d, errors.Join(errs...)
}

// spent is the processor time of each instance so far.
func spent(tb testing.TB, all []*instance) []time.Duration {
	tb.Helper()
	list := make([]time.Duration, len(all))
	for n, i := range all {
		a, err := i.ask(order{})
		if err != nil {
			tb.Fatal(err)
		}
		list[n] = a.CPU
	}
	return list
}

// processor is the processor time of a Redis so far.
func processor(tb testing.TB, server *redistest.Server) (sum time.Duration) {
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

// TestInstancesShareLoad: jobs that go through three instances at once all end, and leave no slot taken.
func TestInstancesShareLoad(t *testing.T) {
	t.Parallel()
	const each = 200
	server := redistest.Start(t)
	all := start(t, server.URL(), 3)
	populate(t, all)
	d, err := submit(all, order{Jobs: each})
	if err != nil || d.jobs != each*len(all) {
		t.Errorf("%d jobs were dispatched, want %d: %v", d.jobs, each*len(all), err)
	}
	if got := count(t, server, "*:fsm"); got != each*len(all) {
		t.Errorf("%d jobs have a record, want %d", got, each*len(all))
	}
	// A lease stands until its job has ended. Nobody waits for its release.
	eventually(t, func() error {
		if left := count(t, server, "*:leases"); left > 0 {
			return fmt.Errorf("%d nodes still have jobs", left)
		}
		return nil
	})
}

// count is how many keys match.
func count(tb testing.TB, server *redistest.Server, pattern string) int {
	tb.Helper()
	reply, err := server.Do("KEYS", pattern)
	if err != nil {
		tb.Fatal(err)
	}
	list, _ := reply.([]any)
	return len(list)
}
