package socket

import "time"

// CheckHealth is one check by the watchdog, at a time that the test chooses.
func CheckHealth(c *Conn, now time.Duration) { c.checkHealth(now) }

// NextPing is when the next ping is due if nothing is received.
func NextPing(c *Conn) time.Duration { return c.health.nextPing }

// Reads is how often bytes arrived.
func Reads(c *Conn) uint64 { return c.reads.Load() }

// Writes is how often the writer asked for something to write.
func Writes(c *Conn) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return uint64(c.queue.writes)
}
