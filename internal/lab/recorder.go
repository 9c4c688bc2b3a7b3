package lab

import (
	"sync"
	"time"
)

// series is one of the latencies that are recorded.
type series int

const (
	dispatch series = iota // from the due time to the answer, or to the node
	wait                   // for a node with a free slot
	whole                  // from the due time to the result
	overhead               // whole without the work of the stand-in node
	lag                    // from the due time to the time at which the generator sent the request
	seriesCount
)

// notMeasured is the duration of a series that a request does not have.
const notMeasured = time.Duration(-1)

// sample holds the latencies of one request that has a result, by series.
type sample [seriesCount]time.Duration

func newSample() sample {
	var s sample
	for i := range s {
		s[i] = notMeasured
	}
	return s
}

// failureKey identifies failures that are counted together.
type failureKey struct{ code, reason string }

// failureCount counts failures.
type failureCount struct {
	count  int
	detail string // of the first one
}

// counts are the numbers of requests. Every planned request is done or failed in the end.
type counts struct{ planned, sent, done, failed int }

// open returns how many requests were sent and have no outcome. Some of the failed ones may not have been sent.
func (c *counts) open() int { return max(c.sent-c.done-c.failed, 0) }

// recorder records the outcome of every request. Its methods may be called from any goroutine.
type recorder struct {
	mu               sync.Mutex
	latencies        [seriesCount]*LatencyRecorder
	measured, warmup counts
	failures         map[failureKey]*failureCount
	warnings         map[string]*failureCount // of sessions, by code
	resumed, lost    int                      // sessions
	polls            int                      // reads of jobs
	lastSent         time.Time
}

func newRecorder(limit time.Duration) *recorder {
	r := &recorder{failures: make(map[failureKey]*failureCount), warnings: make(map[string]*failureCount)}
	for i := range r.latencies {
		r.latencies[i] = NewLatencyRecorder(limit)
	}
	return r
}

func (r *recorder) counts(q request) *counts {
	if q.measured {
		return &r.measured
	}
	return &r.warmup
}

// plan records that a request is due.
func (r *recorder) plan(q request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts(q).planned++
}

// send records that a request is being sent.
func (r *recorder) send(q request, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts(q).sent++
	if q.measured {
		r.latencies[lag].Record(at.Sub(q.due))
		r.lastSent = at
	}
}

// finish records a request that has a result.
func (r *recorder) finish(q request, s sample) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts(q).done++
	if !q.measured {
		return
	}
	for i, d := range s {
		if d != notMeasured {
			r.latencies[i].Record(d)
		}
	}
}

// fail records a request that has no result.
func (r *recorder) fail(q request, f failure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts(q).failed++
	if q.measured {
		countFailure(r.failures, failureKey{f.code, f.reason}, f.detail)
	}
}

// warn records a warning that a session received.
func (r *recorder) warn(code, detail string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	countFailure(r.warnings, code, detail)
}

func countFailure[K comparable](all map[K]*failureCount, key K, detail string) {
	if all[key] == nil {
		all[key] = &failureCount{detail: detail}
	}
	all[key].count++
}

// update changes a count under the recorder's lock.
func (r *recorder) update(change func(*recorder)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(r)
}

// rotate starts the next second of the recent latencies.
func (r *recorder) rotate() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.latencies {
		l.Rotate()
	}
}
