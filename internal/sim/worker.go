package sim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

// Worker does jobs as a simulated node does: it takes its time and says what it would have said. Set its fields before
// the first job.
type Worker struct {
	Took func() time.Duration // how long a job takes

	// What is wrong with it: the part of jobs it refuses, never finishes, or gives up.
	Busy, Lose, Fail float64

	mu    sync.Mutex
	stats NodeStats
}

// Stats is what it has seen so far.
func (w *Worker) Stats() NodeStats {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stats
}

func (w *Worker) note(change func(*NodeStats)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.stats)
}

// over notes a job for which there was no slot.
func (w *Worker) over(wire.ActiveJob) { w.note(func(s *NodeStats) { s.Over++ }) }

// Do is a node.Handler.
func (w *Worker) Do(ctx context.Context, job *node.Job) (node.Result, error) {
	w.note(func(s *NodeStats) {
		s.Active++
		s.Most = max(s.Most, s.Active)
	})
	defer w.note(func(s *NodeStats) { s.Active-- })

	result, err := w.pretend(ctx, job)
	w.note(func(s *NodeStats) {
		switch {
		case err == nil:
			s.Done++
		case errors.Is(err, node.ErrBusy):
			s.Refused++
		case ctx.Err() != nil:
			s.Cancelled++
		default:
			s.Failed++
		}
	})
	return result, err
}

func (w *Worker) pretend(ctx context.Context, job *node.Job) (node.Result, error) {
	if _, err := job.Audio(ctx); err != nil && !errors.Is(err, node.ErrNoAudio) {
		return node.Result{}, err
	}
	fate := rand.Float64()
	switch {
	case fate < w.Busy:
		return node.Result{}, node.ErrBusy
	case fate < w.Busy+w.Lose:
		<-ctx.Done()
		return node.Result{}, ctx.Err()
	}
	began, took := time.Now(), w.Took()
	heard := fmt.Sprintf("%.1f seconds of %s", job.Duration.Seconds(), job.Src)
	for _, stage := range []string{"asr", "nmt"} {
		if !backoff.Sleep(ctx, took/2) {
			return node.Result{}, ctx.Err()
		}
		job.Partial(node.Partial{Stage: stage, TextSrc: heard})
	}
	if fate < w.Busy+w.Lose+w.Fail {
		return node.Result{}, node.Fail("SIMULATED")
	}
	half := took.Milliseconds() / 2
	return node.Result{
		TextSrc: heard, TextTgt: "the same in " + job.Tgt, StagesMS: map[string]int64{"asr": half, "nmt": half},
		Extra: map[string]any{tookField: time.Since(began).Microseconds()},
	}, nil
}

// tookField is where a worker says how long it worked, more exactly than in the stages: in microseconds.
const tookField = "took_us"

// Around draws durations with the given median, whose logarithm deviates by spread: most are near it, and some take much
// longer.
func Around(median time.Duration, spread float64) func() time.Duration {
	return func() time.Duration { return time.Duration(float64(median) * math.Exp(spread*rand.NormFloat64())) }
}
