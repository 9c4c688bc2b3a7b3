//go:build unix

package guards

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	pacing "golang.org/x/time/rate"

	"github.com/lingua-scheduler/lingua/internal/journal"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// readThreads is how many threads read the audit log without a pause.
const readThreads = 8

// TestBesideAuditFlood measures dispatch beside threads that search the audit log without a pause for a key that it does not have, and
// beside as many that ask for /healthz at the rate of the answers that the others got. No dispatch may fail. The processor time of this
// process is printed; it includes the threads.
func TestBesideAuditFlood(t *testing.T) {
	s, url := serve(t)
	for range store.MaxLogEntries / 100 {
		entries := make([]store.AuditEntry, 100)
		for i := range entries {
			entries[i] = store.AuditEntry{
				At: time.Now(), Key: "ops", Role: "operator", Action: "node.drain", Object: fmt.Sprint("node/gpu-", i), Outcome: store.AuditOK,
				Request: "req-1", Address: "192.0.2.1", Instance: "i-1",
			}
		}
		if err := journal.AuditLog(s.Store).Append(t.Context(), entries); err != nil {
			t.Fatal(err)
		}
	}
	audit := flood{url: url + "/v1/audit?limit=1&key=nobody"}
	health := flood{url: url + "/healthz"}
	r := measure(t, s, condition{name: "calm"},
		condition{"the audit log", func() func() { return audit.begin(t, pacing.Inf) }},
		condition{"/healthz", func() func() { return health.begin(t, audit.rate()) }})
	t.Log(audit.String())
	t.Log(health.String())
	compare(t, r[2], r[1], besideReads)
	compareWithCalm(t, r[0], r[1:]...)
}

// flood is requests of several threads.
type flood struct {
	url               string
	answered, refused atomic.Int64
	lasted            time.Duration
	busy              time.Duration // processor time of this process meanwhile
}

// begin begins the requests, at most so many a second, and returns what ends them.
func (f *flood) begin(t *testing.T, perSecond pacing.Limit) (end func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	began, before := time.Now(), usedTime(t)
	pace := pacing.NewLimiter(perSecond, 1)
	transport := &http.Transport{MaxIdleConnsPerHost: readThreads}
	client := http.Client{Transport: transport}
	var threads sync.WaitGroup
	for range readThreads {
		threads.Go(func() {
			for pace.Wait(ctx) == nil {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url, http.NoBody)
				if err != nil {
					t.Error(err)
					return
				}
				resp, err := client.Do(req)
				if err != nil {
					continue
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				if resp.StatusCode == http.StatusOK {
					f.answered.Add(1)
				} else {
					f.refused.Add(1)
				}
			}
		})
	}
	return func() {
		stop()
		threads.Wait()
		transport.CloseIdleConnections()
		f.lasted += time.Since(began)
		f.busy += usedTime(t) - before
	}
}

// rate returns how many requests were answered or refused a second.
func (f *flood) rate() pacing.Limit {
	return max(1, pacing.Limit(float64(f.answered.Load()+f.refused.Load())/max(f.lasted.Seconds(), 0.001)))
}

func (f *flood) String() string {
	return fmt.Sprintf("%s: %d answered, %d refused, %.0f a second; the process used %.2f processors", f.url, f.answered.Load(), f.refused.Load(), float64(f.rate()), f.busy.Seconds()/f.lasted.Seconds())
}

// usedTime is the processor time that this process has used.
func usedTime(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
