package fairqueue

// meter measures the mean interval between grants while somebody waits.
type meter struct {
	last int64 // the last grant, or when the first waiter came
	Interval
}

// begin starts an interval: somebody waits who did not.
func (m *meter) begin(now int64) { m.last = now }

// grant ends an interval.
func (m *meter) grant(now int64, limit int) {
	interval := max(now-m.last, 0) * 1000
	m.Grants = min(m.Grants+1, limit)
	m.US += (interval - m.US) / int64(m.Grants)
	m.last = now
}
