// Package transcripts records the transcripts in docs/node-protocol.md and docs/session-protocol.md from running schedulers, and
// checks that the pages have what was recorded. After a change of the protocol the pages are written again with
//
//	go test ./test/transcripts -update
//
// A transcript is one side of a conversation: what one node or one session sends and receives. Values that differ from run to
// run, such as job ids, are compared by where they occur.
package transcripts
