package guards

import (
	"os"
	"strconv"
	"strings"
)

// processorTime is the time of all processors since the machine was started, in ticks, and the part of it that the hypervisor gave to other
// machines. Both are 0 where the system does not tell.
type processorTime struct{ all, stolen int64 }

// readProcessorTime reads the first line of /proc/stat: cpu, and the times user, nice, system, idle, iowait, irq, softirq and steal.
func readProcessorTime() (t processorTime) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return t
	}
	line, _, _ := strings.Cut(string(text), "\n")
	for i, field := range strings.Fields(line) {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil || i > 8 { // the first is a name, and guests are counted twice
			continue
		}
		t.all += n
		if i == 8 {
			t.stolen = n
		}
	}
	return t
}

// stolenSince is the share of the time of all processors that was stolen since a time.
func stolenSince(began processorTime) float64 {
	now := readProcessorTime()
	if now.all <= began.all {
		return 0
	}
	return float64(now.stolen-began.stolen) / float64(now.all-began.all)
}
