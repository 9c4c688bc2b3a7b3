package lab

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

// WorkerStats is what a worker has counted.
type WorkerStats struct {
	Active, Done, Failed int // jobs
	OverAssigned         int // jobs that were assigned although no slot was free
}

// Worker is the handler of a simulated node: it takes some time for each job and returns a made-up result. Its fields are
// set before the first job.
type Worker struct {
	JobDuration func() time.Duration // how long a job takes

	// The shares of jobs that the worker rejects, never finishes, or fails.
	Reject, Hang, Fail float64

	mu    sync.Mutex
	stats WorkerStats
}

// Stats returns the counts so far.
func (w *Worker) Stats() WorkerStats {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stats
}

func (w *Worker) update(change func(*WorkerStats)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.stats)
}

// countOverAssigned counts a job for which no slot was free.
func (w *Worker) countOverAssigned(wire.ActiveJob) {
	w.update(func(s *WorkerStats) { s.OverAssigned++ })
}

// Do is a node.Handler.
func (w *Worker) Do(ctx context.Context, job *node.Job) (node.Result, error) {
	w.update(func(s *WorkerStats) { s.Active++ })
	result, err := w.work(ctx, job)
	w.update(func(s *WorkerStats) {
		s.Active--
		switch {
		case err == nil:
			s.Done++
		case !errors.Is(err, node.ErrBusy) && ctx.Err() == nil:
			s.Failed++
		}
	})
	return result, err
}

func (w *Worker) work(ctx context.Context, job *node.Job) (node.Result, error) {
	if _, err := job.Audio(ctx); err != nil && !errors.Is(err, node.ErrNoAudio) {
		return node.Result{}, err
	}
	draw := rand.Float64()
	switch {
	case draw < w.Reject:
		return node.Result{}, node.ErrBusy
	case draw < w.Reject+w.Hang:
		<-ctx.Done()
		return node.Result{}, ctx.Err()
	}
	began, took := time.Now(), w.JobDuration()
	textSrc := fmt.Sprintf("%.1f seconds of %s", job.Duration.Seconds(), job.Src)
	for _, stage := range []string{"asr", "nmt"} {
		if !run.Sleep(ctx, took/2) {
			return node.Result{}, ctx.Err()
		}
		job.Partial(node.Partial{Stage: stage, TextSrc: textSrc})
	}
	if draw < w.Reject+w.Hang+w.Fail {
		return node.Result{}, node.Fail("SIMULATED")
	}
	half := took.Milliseconds() / 2
	return node.Result{
		TextSrc: textSrc, TextTgt: "the same in " + job.Tgt, StagesMS: map[string]int64{"asr": half, "nmt": half},
		Extra: map[string]any{workTimeField: time.Since(began).Microseconds()},
	}, nil
}

// workTimeField is the field of a result that holds how long the worker worked, in microseconds, which is more precise than
// the stages.
const workTimeField = "took_us"

// LogNormal returns a function that draws durations from a log-normal distribution with a median and the standard deviation
// of the logarithm.
func LogNormal(median time.Duration, spread float64) func() time.Duration {
	return func() time.Duration { return time.Duration(float64(median) * math.Exp(spread*rand.NormFloat64())) }
}
