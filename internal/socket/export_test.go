package socket

import "time"

// Look is the watchdog's look at one connection, at a time of the test's choice.
func (c *Conn) Look(now time.Duration) { c.look(now) }

// PingDue is when the connection is pinged next if nothing comes.
func (c *Conn) PingDue() time.Duration { return c.watch.ping }

// Heard reports whether something came since it was asked, or the watchdog looked, the last time.
func (c *Conn) Heard() bool { return c.heard.Swap(false) }

// Writes is how often something was handed to the network, or looked for to be.
func (c *Conn) Writes() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return uint64(c.turn)
}
