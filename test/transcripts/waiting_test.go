package transcripts

import (
	"testing"

	"github.com/lingua-scheduler/lingua/wire"
)

// recordSessionWaiting records an utterance that waits for a slot: the node has two, and both are taken.
func recordSessionWaiting(t *testing.T, rec *recorder) {
	i := startInstance(t)
	node, _ := registerNode(t, i, nil)
	client, _ := startSession(t, i, nil, startOf(wire.EncodingPCM))
	next := speak(client, 1, "u-1", tone(20))
	expect[wire.AudioAck](client)
	expect[wire.UtteranceCommitted](client)
	_, first := accept(node)
	node.expectAudio()
	next = speak(client, next, "u-2", tone(20))
	expect[wire.AudioAck](client)
	expect[wire.UtteranceCommitted](client)
	_, second := accept(node)
	node.expectAudio()
	client.rec = rec
	rec.note("both slots of the only node are taken")
	speak(client, next, "u-3", tone(20))
	expect[wire.AudioAck](client)
	expect[wire.UtteranceCommitted](client)
	expect[wire.SessionWaiting](client)
	rec.note("the node has done u-1, and gets u-3")
	sendResult(node, first)
	expect[wire.SessionResult](client)
	sendResult(node, second)
	serveJobs(node, 3) // u-3 may be assigned before the result of u-1 is acknowledged
	client.rec = nil
	expect[wire.SessionResult](client)
	client.rec = rec
	expect[wire.SessionResult](client)
}
