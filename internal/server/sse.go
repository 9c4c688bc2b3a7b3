package server

import (
	"net/http"
	"time"
)

const (
	// streamPing is after how long without an event a comment is sent, so that a connection that is gone is noticed.
	streamPing = 15 * time.Second
	// streamWriteTimeout is how long a client may take to read what is sent.
	streamWriteTimeout = 10 * time.Second
)

// eventWriter writes server-sent events.
type eventWriter struct {
	writer  http.ResponseWriter
	control *http.ResponseController
	written time.Time // when something was sent last
}

// beginEvents answers a request with a stream of events.
func beginEvents(w http.ResponseWriter) *eventWriter {
	e := &eventWriter{writer: w, control: http.NewResponseController(w)}
	_ = e.control.SetReadDeadline(time.Time{}) // which would end the request, whose body was read
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store, no-transform")
	h.Set("X-Accel-Buffering", "no") // a proxy must not collect events
	w.WriteHeader(http.StatusOK)
	return e
}

// send sends events, or a comment if there are none and nothing was sent for a while. It reports whether the client is still there.
func (e *eventWriter) send(events []byte) bool {
	if len(events) == 0 {
		if time.Since(e.written) < streamPing && !e.written.IsZero() {
			return true
		}
		events = []byte(":\n\n")
	}
	e.written = time.Now()
	_ = e.control.SetWriteDeadline(e.written.Add(streamWriteTimeout)) // fails only without a connection
	if _, err := e.writer.Write(events); err != nil {
		return false
	}
	return e.control.Flush() == nil
}
