// Package interop tests the scheduler with sessions and nodes in another language. The programs in js are written in
// JavaScript from docs/sockets.md and api/asyncapi.yaml alone, so what they need and the pages do not say is a defect of the pages.
//
// A case starts Redis, instances of the real binary and JavaScript processes, breaks something in mid-speech, and compares
// what the session printed with what was promised: every utterance ended once, in order, in time, with exactly its audio.
// `make interop` installs what the programs depend on.
package interop
