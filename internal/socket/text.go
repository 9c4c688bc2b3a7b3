package socket

// SendText queues a copy of a text frame that was written before, in the manner of Send.
func (c *Conn) SendText(text []byte) bool { return c.enqueue(opText, text) }
