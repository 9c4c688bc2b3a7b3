// Package session is a conversation's life: it cuts a stream of audio into utterances, makes a job of each, keeps the
// sound until the job has ended, and brings the results back in the order in which people spoke. It talks to whoever
// listens through a Link and does not know what a socket is.
//
// The terminal message of every utterance is durable before anybody sees it: it goes through the session's outbox in
// the store, by its turn, so that it comes exactly once and in order whoever decided it. Everything else (partial
// results, acknowledgements, speech) is told if somebody listens, and lost if not.
package session
