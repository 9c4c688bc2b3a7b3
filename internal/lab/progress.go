package lab

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Phase is what a run is doing.
type Phase string

// The phases, in their order.
const (
	PhaseNodes    Phase = "connecting stand-in nodes"
	PhaseSessions Phase = "opening sessions"
	PhaseWarmup   Phase = "warm-up"
	PhaseLoad     Phase = "load"
	PhaseWait     Phase = "waiting for open requests"
	PhaseEnd      Phase = "closing sessions and nodes"
)

// Progress is the state of a run.
type Progress struct {
	Phase        Phase
	Elapsed, Of  time.Duration // of the phase, in the phases warm-up and load
	Sent         int           // after the warm-up, as are Done and Failed
	Done, Failed int
	Open         int    // requests without an outcome, with those of the warm-up
	P50, P99     string // of the whole latency in the last seconds
	Lag          string // the 99th percentile of the generator's lag in the last seconds
}

func (p Progress) String() string {
	switch p.Phase {
	case PhaseWarmup, PhaseLoad:
		return fmt.Sprintf("%s %.0f/%.0f s, done %d, failed %d, open %d, p50 %s, p99 %s, lag %s",
			p.Phase, p.Elapsed.Seconds(), p.Of.Seconds(), p.Done, p.Failed, p.Open, p.P50, p.P99, p.Lag)
	case PhaseWait:
		return fmt.Sprintf("%s: %d", p.Phase, p.Open)
	}
	return string(p.Phase)
}

// progressInterval is the time between two reports of the progress.
const progressInterval = time.Second

// monitor reports the progress of a run.
type monitor struct {
	cfg      *LoadConfig
	recorder *recorder

	mu      sync.Mutex // held while OnProgress is called, so that its calls do not overlap
	phase   Phase
	started time.Time // of the load
}

// enter begins a phase.
func (m *monitor) enter(p Phase) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.phase = p
	m.report()
}

// enterLoad begins the phases warm-up and load.
func (m *monitor) enterLoad(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.phase, m.started = PhaseLoad, at
	m.report()
}

// run reports the progress every second until it is stopped.
func (m *monitor) run(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(progressInterval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				m.tick()
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

func (m *monitor) tick() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.report()
	m.recorder.rotate()
}

// report calls OnProgress. The caller holds the lock.
func (m *monitor) report() {
	if m.cfg.OnProgress == nil || m.phase == "" {
		return
	}
	p := Progress{Phase: m.phase}
	if m.phase == PhaseLoad {
		p.Elapsed, p.Of = time.Since(m.started)-m.cfg.Warmup, m.cfg.Duration
		if p.Elapsed < 0 {
			p.Phase, p.Elapsed, p.Of = PhaseWarmup, p.Elapsed+m.cfg.Warmup, m.cfg.Warmup
		}
		p.Elapsed = max(p.Elapsed, 0)
	}
	m.recorder.update(func(r *recorder) {
		p.Sent, p.Done, p.Failed = r.measured.sent, r.measured.done, r.measured.failed
		p.Open = r.measured.open() + r.warmup.open()
		recent := r.latencies[whole].Recent()
		p.P50, p.P99 = FormatQuantile(recent, 50), FormatQuantile(recent, 99)
		p.Lag = FormatQuantile(r.latencies[lag].Recent(), 99)
	})
	m.cfg.OnProgress(p)
}
