package fairqueue

// meter measures the mean interval between grants while somebody waits. It keeps nanoseconds: with many grants in a millisecond, most steps
// of the mean are less than a microsecond.
type meter struct {
	last int64 // the last grant, or when the first waiter came
	ns   int64 // the mean in nanoseconds; Interval has it in microseconds
	Interval
}

// begin starts an interval: somebody waits who did not.
func (m *meter) begin(now int64) { m.last = now }

// grant ends an interval.
func (m *meter) grant(now int64, limit int) {
	interval := max(now-m.last, 0) * 1_000_000
	m.Grants = min(m.Grants+1, limit)
	m.ns += (interval - m.ns) / int64(m.Grants)
	m.US = m.ns / 1000
	m.last = now
}
