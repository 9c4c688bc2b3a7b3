package main

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
)

const (
	sampleEvery = time.Second
	// longestDelay is how late a sample may be on a machine that runs. The scheduler of the kernel runs a process that mostly sleeps
	// within milliseconds, however busy the machine is.
	longestDelay = time.Second
	// stolenPart is the part of the processor time that a hypervisor may take from a machine that runs.
	stolenPart = 1.0 / 3
)

// interval is a time in which something happened.
type interval struct{ from, to time.Time }

func (i interval) overlaps(other interval) bool {
	return i.from.Before(other.to) && other.from.Before(i.to)
}

// machine records when this machine stood still.
type machine struct {
	mu     sync.Mutex
	stalls []interval
}

// watch samples until the context ends.
func (m *machine) watch(ctx context.Context) {
	last, stolen := time.Now(), stolenTime()
	for backoff.Sleep(ctx, sampleEvery) {
		now, total := time.Now(), stolenTime()
		m.observe(interval{last, now}, (total-stolen)/time.Duration(runtime.NumCPU()))
		last, stolen = now, total
	}
}

// observe records a sample: an interval that should have taken sampleEvery, and how much of it the hypervisor took from each processor.
func (m *machine) observe(sample interval, stolen time.Duration) {
	took := sample.to.Sub(sample.from)
	if took < sampleEvery+longestDelay && float64(stolen) < stolenPart*float64(took) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.stalls); n > 0 && m.stalls[n-1].to.Equal(sample.from) {
		m.stalls[n-1].to = sample.to
		return
	}
	m.stalls = append(m.stalls, sample)
}

// all returns the stalls until now.
func (m *machine) all() []interval {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]interval(nil), m.stalls...)
}

// stolenTime returns how much time hypervisors have taken from the processors of this machine together, as far as the system knows.
func stolenTime() time.Duration {
	const perSecond = 100 // the unit of /proc/stat on all platforms of Linux
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0 // another system
	}
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(line) // cpu user nice system idle iowait irq softirq steal …
	if len(fields) < 9 {
		return 0
	}
	ticks, err := strconv.ParseInt(fields[8], 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(ticks) * time.Second / perSecond
}
