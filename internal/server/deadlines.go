package server

import (
	"net/http"
	"time"
)

// How long a peer may take. Every request and every answer has an end, so that nobody holds a connection by being slow.
const (
	headerTimeout = 5 * time.Second
	bodyTimeout   = 30 * time.Second // of a body that somebody reads
	// unreadTimeout is for a body that nobody reads, because the request is refused without it: net/http waits for its end,
	// so that it can use the connection again.
	unreadTimeout = time.Second
	idleTimeout   = 2 * time.Minute
	// writeTimeout is how long one writeChunk of an answer may take: a large one goes on for as long as it is read.
	writeTimeout = 10 * time.Second
	writeChunk   = 64 << 10
	// answerTimeout is for what handlers of others write, from when the request was read.
	answerTimeout = 60 * time.Second
)

// limitUnread gives a body little time until somebody wants it.
func limitUnread(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(unreadTimeout)) // what has none is no connection
	}
}

// awaitBody gives a body the time that one may take.
func awaitBody(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout)) // as above
}

// respond writes the body of an answer. A peer that left, or that does not read, does not get it.
func respond(w http.ResponseWriter, body []byte) {
	control := http.NewResponseController(w)
	for {
		_ = control.SetWriteDeadline(time.Now().Add(writeTimeout)) // as above
		n, err := w.Write(body[:min(len(body), writeChunk)])
		if body = body[n:]; err != nil || len(body) == 0 {
			return
		}
	}
}
