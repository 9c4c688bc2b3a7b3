package main

import (
	"context"
	"os"
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
	last, stolen := time.Now(), readStolen()
	for backoff.Sleep(ctx, sampleEvery) {
		now, total := time.Now(), readStolen()
		m.observe(interval{last, now}, total-stolen)
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

// afterASample returns the stalls until now, when the sample of now has been taken.
func (m *machine) afterASample(ctx context.Context) []interval {
	backoff.Sleep(ctx, sampleEvery+longestDelay)
	return m.all()
}

// readStolen returns how much time hypervisors have taken from each processor of this machine; zero if the system does not say it.
func readStolen() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0 // another system
	}
	return parseStolen(string(text))
}

// parseStolen reads the time from the first lines of /proc/stat, one for all processors together and one for each.
func parseStolen(stat string) time.Duration {
	const perSecond = 100 // the unit of these times
	var ticks, processors int64
	for line := range strings.Lines(stat) {
		fields := strings.Fields(line) // cpu user nice system idle iowait irq softirq steal …
		if len(fields) < 9 || !strings.HasPrefix(fields[0], "cpu") {
			break
		}
		if fields[0] != "cpu" {
			processors++
			continue
		}
		var err error
		if ticks, err = strconv.ParseInt(fields[8], 10, 64); err != nil {
			return 0
		}
	}
	return time.Duration(ticks) * time.Second / perSecond / time.Duration(max(processors, 1))
}
