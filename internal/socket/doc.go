// Package socket is the server's side of one WebSocket connection, whatever is spoken over it, and the hall in which
// all of them are kept. It knows bytes, frames and manners: bounded queues, pings, closes. It knows nothing of nodes,
// sessions or jobs.
//
// The library does the handshake and reads what strangers send. This package writes by itself, because a ping must not
// wait for its pong, an answer to a ping must not hold up the reader, what is queued should go out in one system call,
// and an error frame comes before every close, also before one for a breach of the protocol.
//
// A connection has the caller's goroutine, which reads, and while there is something to write one more. There is no
// timer, context or goroutine beside these: one watchdog, Hall.Run, looks after all connections.
package socket
