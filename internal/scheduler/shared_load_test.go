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

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	loadClients = 16
	sharedNodes = 20
	sharedSlots = 2
	think       = 60 * time.Millisecond // between two utterances of a client, on average
	steady      = 2 * loadClients       // answers in a row that are no failure, for the service to count as back
)

// unanswered is a request whose connection broke.
const unanswered = wire.Code("unanswered")

// load is clients that dispatch one job after another over HTTP, each to any instance. Who is refused sends the same
// request again until it is accepted.
type load struct {
	t       *testing.T
	world   world
	stop    context.CancelFunc
	clients sync.WaitGroup

	mu       sync.Mutex
	accepted map[string]span // by job
	refused  map[wire.Code]int
	marked   time.Time // when the trouble began, or ended, after which the service is waited for
	back     time.Time // when the present row of acceptances began
	row      int
}

// span is from when the accepted dispatch of a job was sent until it was answered.
type span struct{ began, ended time.Time }

func startLoad(t *testing.T, w world) *load {
	t.Helper()
	l := &load{t: t, world: w, accepted: make(map[string]span), refused: make(map[wire.Code]int)}
	life, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	l.stop = stop
	t.Cleanup(l.end)
	for i := range loadClients {
		l.clients.Go(func() {
			for k := 0; backoff.Sleep(life, rand.N(2*think)); k++ {
				l.dispatch(life, fmt.Sprintf("req-%d-%d", i, k))
			}
		})
	}
	return l
}

// end lets the clients go.
func (l *load) end() {
	l.stop()
	l.clients.Wait()
}

func (l *load) dispatch(ctx context.Context, request string) {
	in := wire.DispatchRequest{RequestID: request, SessionID: "room", SrcLang: "en", TgtLang: "zh"}
	for {
		began := time.Now()
		var out wire.DispatchResponse
		err := l.world.any().peer.Post(ctx, "/v1/dispatch/f2f", in, &out)
		if ctx.Err() != nil {
			return // its answer may not have been heard
		}
		var e *wire.Error
		switch {
		case err == nil:
			if want := core.JobIDFor("", core.RequestID(request)); out.JobID != string(want) {
				l.t.Errorf("request %s became job %s, want %s", request, out.JobID, want)
			}
			l.note(out.JobID, began, "")
			return
		case !errors.As(err, &e):
			l.note("", began, unanswered)
		case e.Code.Retryable():
			l.note("", began, e.Code)
		default:
			l.t.Errorf("dispatch of %s: %v", request, err)
			return
		}
		backoff.Sleep(ctx, rand.N(40*time.Millisecond))
	}
}

// note takes down an answer.
func (l *load) note(job string, began time.Time, refused wire.Code) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch refused {
	case "":
		l.accepted[job] = span{began, time.Now()}
		if began.Before(l.marked) {
			return
		}
		if l.row == 0 {
			l.back = time.Now()
		}
		l.row++
	case wire.AllCandidatesFullOrFailed, unanswered:
		l.refused[refused]++ // it is busy, not away
	default:
		l.refused[refused]++
		l.row = 0
	}
}

// mark begins to wait for the service.
func (l *load) mark() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.marked, l.row = time.Now(), 0
}

// outage waits until the service is back since the mark, and returns how long it was away.
func (l *load) outage() time.Duration {
	l.t.Helper()
	var away time.Duration
	took(l.t, "the service to be back", 3*patience, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		away = l.back.Sub(l.marked)
		return l.row >= steady
	})
	return away.Round(time.Millisecond)
}

// sent waits until so many more jobs were accepted.
func (l *load) sent(more int) {
	l.t.Helper()
	count := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.accepted)
	}
	want := count() + more
	took(l.t, "jobs to be accepted", 3*patience, func() bool { return count() >= want })
}

// verdict is what became of the accepted jobs.
type verdict struct {
	done      int
	failed    map[string]int // by reason
	forgotten []string       // the store does not know them
}

func (v *verdict) String() string {
	failed := 0
	for _, n := range v.failed {
		failed += n
	}
	return fmt.Sprintf("done %d, failed %d %v, forgotten %d", v.done, failed, v.failed, len(v.forgotten))
}

// settle ends the load, waits until every job that was accepted has ended, and says how. A job that does not end
// within the given time fails the test. One that the store does not know is forgotten when no instance sees it through
// any more: until then it may be written again.
func (l *load) settle(limit time.Duration) *verdict {
	l.t.Helper()
	l.end()
	v := &verdict{failed: make(map[string]int)}
	left := slices.Collect(maps.Keys(l.accepted))
	began := time.Now()
	for len(left) > 0 {
		var live []string
		states := make(map[string]int) // of those that go on
		flying := l.world.inFlight() > 0
		for _, id := range left {
			var job wire.Job
			err := l.world.any().peer.Get(l.t.Context(), "/v1/jobs/"+id, &job)
			var e *wire.Error
			switch {
			case errors.As(err, &e) && e.Code == wire.NotFound && flying:
				live = append(live, id)
			case errors.As(err, &e) && e.Code == wire.NotFound:
				v.forgotten = append(v.forgotten, id)
			case err != nil:
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
		if left = live; len(left) > 0 && time.Since(began) > limit {
			l.t.Errorf("%d accepted jobs did not end: %v, such as %s", len(left), states, left[0])
			return v
		}
		backoff.Sleep(l.t.Context(), 20*time.Millisecond)
	}
	return v
}

// explain says of jobs what is known of them, of each from when it was accepted.
func (l *load) explain(f fleet, ids []string) string {
	var b strings.Builder
	for _, id := range ids[:min(len(ids), 5)] {
		s := l.accepted[id]
		fmt.Fprintf(&b, "\n\t%s, accepted %v after the mark:%s", id, s.ended.Sub(l.marked).Round(time.Millisecond), f.story(id))
	}
	return b.String()
}
