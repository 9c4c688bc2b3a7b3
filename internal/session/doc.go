// Package session holds the sessions of this instance. It divides a stream of audio into utterances, makes a job of each,
// keeps the audio until the job has ended, and delivers the results in the order of the utterances. It reaches a client
// through a Conn, the nodes through Jobs, and other instances through the store and the bus.
//
// The terminal message of every utterance is durable before the client sees it: it goes through the session's outbox in the
// store, at the position of the utterance's turn, so that it is delivered exactly once and in order, whichever instance
// decided it. Everything else (partial results, acknowledgements, speech) is sent if the client is connected, and is lost if
// not.
//
// A Session has one mutex. It guards the session and its parts: the intake of audio, the outbox, the saver of its state, the
// delivery of speech, the monitor, and the session's utterances. It is never held during a call of the store, of the bus or
// of Jobs.
package session
