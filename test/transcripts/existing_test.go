package transcripts

import (
	"encoding/json"
	"testing"

	"github.com/lingua-scheduler/lingua/wire"
)

// recordNodeExisting and recordSessionExisting record a node and a session of the design documents, for docs/migration.md.
func recordNodeExisting(t *testing.T, rec *recorder) {
	i := startInstance(t)
	node := connect(t, i, "/ws/node", rec)
	node.sendText([]byte(`{"type": "node_register", "node_id": "node-123", "language_capabilities": {"asr_langs": ["en", "es"], "semantic_langs": ["en", "es"]}, "max_concurrent_jobs": 2}`))
	expect[wire.NodeRegisterAck](node)
	node.sendText([]byte(`{"type": "node_heartbeat", "cpu_usage": 33, "current_jobs": 0}`))
	client, _ := startSession(t, i, nil, startOf(wire.EncodingPCM))
	speak(client, 1, "u-1", tone(100))
	_, job := accept(node)
	node.expectAudio()
	sendResult(node, job)
	expect[wire.JobResultAck](node)
}

func recordSessionExisting(t *testing.T, rec *recorder) {
	i := startInstance(t)
	node, _ := registerNode(t, i, nil)
	client := connect(t, i, "/ws/session", rec)
	client.sendText([]byte(`{"type": "session_start", "session_id": "room-888", "src_lang": "en", "tgt_lang": "es"}`))
	expect[wire.SessionStarted](client)
	audio, err := json.Marshal(tone(1))
	if err != nil {
		t.Fatal(err)
	}
	client.sendText([]byte(`{"type": "audio_chunk", "seq": 1, "data": ` + string(audio) + `, "is_final": true}`))
	expect[wire.AudioAck](client)
	expect[wire.UtteranceCommitted](client)
	serveJobs(node, 1)
	expect[wire.SessionResult](client)
	client.send(wire.SessionEnd{})
	expect[wire.SessionEnded](client)
}
