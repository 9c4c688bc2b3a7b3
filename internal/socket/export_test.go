package socket

import "time"

// CheckHealth is one check by the watchdog, at a time that the test chooses.
func (c *Conn) CheckHealth(now time.Duration) { c.checkHealth(now) }

// NextPing is when the next ping is due if nothing is received.
func (c *Conn) NextPing() time.Duration { return c.health.nextPing }

// Received reports whether bytes were received since the last call, or the last check by the watchdog.
func (c *Conn) Received() bool { return c.received.Swap(false) }

// Writes is how often the writer asked for something to write.
func (c *Conn) Writes() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return uint64(c.queue.writes)
}
