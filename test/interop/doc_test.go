// Package interop tests the scheduler with sessions and nodes in another language. The programs in js are written in
// JavaScript from the pages about the sockets in docs and api/asyncapi.yaml alone, so anything that they need and these documents
// do not say is a defect of the documents. The node in Python that docs/http-nodes.md shows runs here too.
//
// A case starts Redis, instances of the scheduler and JavaScript processes, injects a fault during an utterance, and checks
// what the session printed: every utterance ended once, in order, in time, with exactly its audio.
//
// The nodes and sessions of the directory examples run here too, in every language, while schedulers end and restart.
// `make tools` installs the dependencies of all these programs.
package interop
