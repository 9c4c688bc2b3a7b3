package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	loadClients = 12
	sharedNodes = 20
	sharedSlots = 2
	thinkTime   = 80 * time.Millisecond // between two utterances of a client, on average
	steadyRun   = 2 * loadClients       // acceptances in a row for the service to count as back
)

// unanswered is a request whose connection broke.
const unanswered = wire.Code("unanswered")

// httpLoad is clients that dispatch one job after another over HTTP, each to any instance. A client that is refused sends the same
// request again until it is accepted.
type httpLoad struct {
	t       *testing.T
	cluster cluster
	stop    context.CancelFunc
	clients sync.WaitGroup

	mu             sync.Mutex
	accepted       map[string]span // by job
	refused        map[wire.Code]int
	faultAt        time.Time // when the fault began or ended, after which the service is waited for
	backAt         time.Time // when the current row of acceptances began
	acceptedInARow int
}

// span is from when an accepted request was sent until it was answered.
type span struct{ began, ended time.Time }

func startLoad(t *testing.T, instances cluster) *httpLoad {
	t.Helper()
	l := &httpLoad{t: t, cluster: instances, accepted: make(map[string]span), refused: make(map[wire.Code]int)}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	l.stop = stop
	t.Cleanup(l.end)
	for i := range loadClients {
		l.clients.Go(func() {
			for k := 0; run.Sleep(ctx, rand.N(2*thinkTime)); k++ {
				l.dispatch(ctx, fmt.Sprintf("req-%d-%d", i, k))
			}
		})
	}
	return l
}

// end stops the clients.
func (l *httpLoad) end() {
	l.stop()
	l.clients.Wait()
}

func (l *httpLoad) dispatch(ctx context.Context, request string) {
	in := wire.DispatchRequest{RequestID: request, SessionID: "session-1", SrcLang: "en", TgtLang: "zh"}
	for {
		began := time.Now()
		var out wire.DispatchResponse
		err := l.cluster.anyInstance().peer.Post(ctx, "/v1/dispatch/f2f", in, &out)
		if ctx.Err() != nil {
			return // the answer may be lost
		}
		var e *wire.Error
		switch {
		case err == nil:
			if want := core.JobIDFor("", core.RequestID(request)); out.JobID != string(want) {
				l.t.Errorf("request %s became job %s, want %s", request, out.JobID, want)
			}
			l.record(out.JobID, began, "")
			return
		case !errors.As(err, &e):
			l.record("", began, unanswered)
		case e.Code.Retryable():
			l.record("", began, e.Code)
		default:
			l.t.Errorf("dispatch of %s: %v", request, err)
			return
		}
		run.Sleep(ctx, rand.N(100*time.Millisecond))
	}
}

// record records an answer.
func (l *httpLoad) record(job string, began time.Time, refused wire.Code) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch refused {
	case "":
		l.accepted[job] = span{began, time.Now()}
		if began.Before(l.faultAt) {
			return
		}
		if l.acceptedInARow == 0 {
			l.backAt = time.Now()
		}
		l.acceptedInARow++
	case wire.AllCandidatesFullOrFailed, unanswered:
		l.refused[refused]++ // the service is busy, not down
	default:
		l.refused[refused]++
		l.acceptedInARow = 0
	}
}

// markFault sets the time from which the service is waited for.
func (l *httpLoad) markFault() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faultAt, l.acceptedInARow = time.Now(), 0
}

// waitForService waits until the service is back, and returns how long after the mark that was.
func (l *httpLoad) waitForService() time.Duration {
	l.t.Helper()
	var outage time.Duration
	waitUntil(l.t, "the service to be back", 3*waitLimit, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		outage = l.backAt.Sub(l.faultAt)
		return l.acceptedInARow >= steadyRun
	})
	return outage.Round(time.Millisecond)
}

// waitForAccepted waits until the given number of further jobs was accepted.
func (l *httpLoad) waitForAccepted(more int) {
	l.t.Helper()
	count := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.accepted)
	}
	want := count() + more
	waitUntil(l.t, "jobs to be accepted", 3*waitLimit, func() bool { return count() >= want })
}

// jobOutcomes counts the outcomes of the accepted jobs.
type jobOutcomes struct {
	done   int
	failed map[string]int // by reason
	lost   []string       // the store does not know them
}

func (v *jobOutcomes) String() string {
	failed := 0
	for _, n := range v.failed {
		failed += n
	}
	return fmt.Sprintf("done %d, failed %d %v, lost %d", v.done, failed, v.failed, len(v.lost))
}

// waitForEnd ends the load, waits until every accepted job has ended, and returns the outcomes. A job that does not end
// within the given time fails the test. One that the store does not know is lost when no instance runs it
// any more: until then its record may be restored.
func (l *httpLoad) waitForEnd(limit time.Duration) *jobOutcomes {
	l.t.Helper()
	l.end()
	v := &jobOutcomes{failed: make(map[string]int)}
	left, late := slices.Collect(maps.Keys(l.accepted)), 0 // late is how many passes began after the limit
	began := time.Now()
	for len(left) > 0 {
		if l.cluster.inFlight() > 0 && time.Since(began) < limit { // an instance runs some of them
			run.Sleep(l.t.Context(), 20*time.Millisecond)
			continue
		}
		if time.Since(began) >= limit {
			late++
		}
		var live []string
		states := make(map[string]int) // of those that have not ended, and errors
		inFlight := l.cluster.inFlight() > 0
		for _, id := range left {
			var job wire.Job
			err := l.cluster.anyInstance().peer.Get(l.t.Context(), "/v1/jobs/"+id, &job)
			var e *wire.Error
			switch {
			case errors.As(err, &e) && e.Code == wire.NotFound && inFlight:
				states["unknown, while jobs are in flight"]++
				live = append(live, id)
			case errors.As(err, &e) && e.Code == wire.NotFound:
				v.lost = append(v.lost, id)
			case err != nil:
				states[err.Error()]++
				live = append(live, id)
			case job.State == "DONE":
				v.done++
			case job.State == "FAILED":
				v.failed[job.Reason]++
			default:
				states[job.State]++
				live = append(live, id)
			}
		}
		if left = live; len(left) > 0 && late > 1 { // one pass may have begun early, or have had no answers
			l.t.Errorf("%d accepted jobs did not end: %v, such as %s", len(left), states, left[0])
			return v
		}
		run.Sleep(l.t.Context(), 100*time.Millisecond)
	}
	return v
}

// explain returns what is known of some jobs.
func (l *httpLoad) explain(f nodeFleet, ids []string) string {
	var b strings.Builder
	for _, id := range ids[:min(len(ids), 5)] {
		s := l.accepted[id]
		fmt.Fprintf(&b, "\n\t%s, accepted %v after the mark:%s", id, s.ended.Sub(l.faultAt).Round(time.Millisecond), f.historyOf(id))
	}
	return b.String()
}
