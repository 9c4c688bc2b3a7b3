package transcripts

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/wire"
)

// giveJob has a session say something, and the node accept it as a job.
func giveJob(t *testing.T, i *clustertest.Instance, node *peer) (client *peer, job wire.ActiveJob) {
	t.Helper()
	client, _ = startSession(t, i, nil, startOf(wire.EncodingOpus))
	speak(client, 1, "u-1", packets(1)...)
	_, job = accept(node)
	node.expectAudio()
	return client, job
}

func recordNodeHappyPath(t *testing.T, rec *recorder) {
	i := startInstance(t)
	node, ack := registerNode(t, i, rec)
	heartbeat(node, ack.Epoch, 1)
	start := startOf(wire.EncodingPCM)
	start.Partials = true
	client, _ := startSession(t, i, nil, start)
	speak(client, 1, "u-1", tone(100), tone(100))
	_, job := accept(node)
	node.expectAudio()
	compareHex(t, "node-audio", node.last)
	node.send(wire.JobPartial{ActiveJob: job, Rev: 1, Stage: "asr", TextSrc: "hello"})
	heartbeat(node, ack.Epoch, 2, wire.ActiveAttempt{ActiveJob: job, AudioChunks: 1})
	sendResult(node, job)
	expect[wire.JobResultAck](node)
	heartbeat(node, ack.Epoch, 3)
}

func recordNodeSpeech(t *testing.T, rec *recorder) {
	i := startInstance(t)
	node, _ := registerNode(t, i, nil)
	node.rec = rec
	start := startOf(wire.EncodingOpus)
	start.TTS = true
	client, _ := startSession(t, i, nil, start)
	speak(client, 1, "u-1", packets(1)...)
	_, job := accept(node)
	node.expectAudio()
	format := &wire.AudioFormat{Encoding: wire.EncodingOpus, SampleRate: 48_000, Channels: 1}
	node.send(wire.JobResult{ActiveJob: job, Result: []byte(translation), TTS: true, TTSAudio: format})
	header := wire.BinaryHeader{Kind: wire.KindTTS, ActiveJob: job, Audio: format}
	node.sendSpeech(header, opusPacket(1))
	header.Chunk, header.Audio = 1, nil
	node.sendSpeech(header, opusPacket(2))
	header.Chunk, header.Last = 2, true
	node.sendSpeech(header, opusPacket(3))
	expect[wire.JobResultAck](node)
	expect[wire.AudioAck](client)
	expect[wire.UtteranceCommitted](client)
	if r := expect[wire.SessionResult](client); r.TTS != "follows" || client.expectAudio() != 3 {
		t.Errorf("the session did not receive the speech: %+v", r)
	}
}

func recordNodeResume(t *testing.T, rec *recorder) {
	i := startInstance(t)
	node, ack := registerNode(t, i, rec)
	client, _ := startSession(t, i, nil, startOf(wire.EncodingOpus))
	speak(client, 1, "u-1", packets(3)...)
	_, job := accept(node)
	node.expectBinary()
	node.cut()
	rec.note("the node connects to the same instance within disconnect_grace_ms; it has one chunk of the audio")
	node, ack = registerAgain(t, i, rec, ack.ResumeToken, wire.ActiveAttempt{ActiveJob: job, AudioChunks: 1})
	node.expectAudio()
	node.send(wire.JobAck{ActiveJob: job})
	sendResult(node, job)
	expect[wire.AudioAck](client)
	expect[wire.UtteranceCommitted](client)
	expect[wire.SessionResult](client)
	node.cut()
	rec.note("the acknowledgement was lost with the connection, so the node still lists the job and sends the result again")
	node, _ = registerAgain(t, i, rec, ack.ResumeToken, wire.ActiveAttempt{ActiveJob: job, AudioChunks: 3})
	sendResult(node, job)
	expect[wire.JobResultAck](node)
}

func recordNodeFailover(t *testing.T, rec *recorder) {
	a, b := startTwo(t)
	rec.note(instanceNote("the node connects to", a))
	node, ack := registerNode(t, a, rec)
	client, _ := startSession(t, a, nil, startOf(wire.EncodingOpus))
	next := speak(client, 1, "u-1", packets(2)...)
	_, complete := accept(node)
	node.expectAudio()
	speak(client, next, "u-2", packets(2)...)
	_, incomplete := accept(node)
	node.expectBinary()
	a.Kill()
	node.cut()
	rec.note(instanceNote("instance a has died; the node connects to", b))
	node, _ = registerAgain(t, b, rec, ack.ResumeToken, wire.ActiveAttempt{ActiveJob: complete, AudioChunks: 2},
		wire.ActiveAttempt{ActiveJob: incomplete, AudioChunks: 1})
	rec.note("the audio of the first job is complete, so it goes on; that of the second is not, and will not come")
	node.send(wire.JobAck{ActiveJob: complete})
	node.send(wire.JobFail{ActiveJob: incomplete, Reason: "AUDIO_LOST"})
	expect[wire.JobResultAck](node)
	sendResult(node, complete)
	expect[wire.JobResultAck](node)
}

func recordNodeGoAway(t *testing.T, rec *recorder) {
	a, b := startTwo(t)
	rec.note(instanceNote("the node is connected to", a))
	node, ack := registerNode(t, a, nil)
	node.rec = rec
	_, job := giveJob(t, a, node)
	terminate(t, a)
	expect[wire.GoAway](node)
	rec.note("after a random time in the first half of reconnect_ms the node opens a second connection, to instance b")
	moved, _ := registerAgain(t, b, rec, ack.ResumeToken, wire.ActiveAttempt{ActiveJob: job, AudioChunks: 1})
	rec.note("the node closes the first connection; everything else is on the second")
	node.close()
	moved.send(wire.JobAck{ActiveJob: job})
	sendResult(moved, job)
	expect[wire.JobResultAck](moved)
}

func recordNodeDrain(t *testing.T, rec *recorder) {
	i := startInstance(t)
	node, ack := registerNode(t, i, rec)
	_, job := giveJob(t, i, node)
	rec.note("an operator drains the node: POST /v1/nodes/gpu-1/drain, or lingua drain gpu-1")
	post(t, i, "/v1/nodes/"+nodeName+"/drain")
	expect[wire.Drain](node)
	rec.note("the node finishes what it has, stays connected and goes on with its heartbeats")
	sendResult(node, job)
	expect[wire.JobResultAck](node)
	heartbeat(node, ack.Epoch, 1)
	rec.note("the operator ends the drain: lingua resume gpu-1")
	post(t, i, "/v1/nodes/"+nodeName+"/resume")
	expect[wire.Drain](node)
}

func recordNodeCancel(t *testing.T, rec *recorder) {
	i := startInstance(t)
	node, _ := registerNode(t, i, nil)
	node.rec = rec
	client, job := giveJob(t, i, node)
	rec.note("the session cancels the utterance")
	client.send(wire.SessionCancel{UtteranceID: "u-1"})
	expect[wire.JobCancel](node)
	node.send(wire.JobCancelled{ActiveJob: job})
}

func recordNodeBusy(t *testing.T, rec *recorder) {
	i := startInstance(t)
	node, _ := registerNode(t, i, nil)
	node.rec = rec
	client, _ := startSession(t, i, nil, startOf(wire.EncodingOpus))
	speak(client, 1, "u-1", packets(1)...)
	assign := expect[wire.JobAssign](node)
	node.send(wire.JobReject{ActiveJob: wire.ActiveJob{JobID: assign.JobID, AttemptID: assign.AttemptID}, Reason: "NODE_BUSY"})
	node.expectAudio()
	rec.note("no other node can take the job; after a second this one is asked again, for the same attempt")
	accept(node)
	node.expectAudio()
}

func recordNodeFail(t *testing.T, rec *recorder) {
	i := startInstance(t)
	node, _ := registerNode(t, i, nil)
	node.rec = rec
	_, job := giveJob(t, i, node)
	node.send(wire.JobFail{ActiveJob: job, Reason: "OUT_OF_MEMORY"})
	node.putFirst(wire.JobResultAck{}.Type()) // the retry may be assigned before
	expect[wire.JobResultAck](node)
	rec.note("there is no other node, so this one is asked again; the attempt is another")
	accept(node)
	node.expectAudio()
}

func recordNodeModel(t *testing.T, rec *recorder) {
	i := startInstance(t)
	node := connect(t, i, "/ws/node", rec)
	declared := declaration()
	declared.InstalledServices = []wire.Service{{ServiceID: "nmt-en-es", Version: "3.1", Type: "nmt", Status: "ready"}}
	node.send(wire.NodeRegister{NodeID: nodeName, Declaration: declared})
	expect[wire.NodeRegisterAck](node)
	_, job := giveJob(t, i, node)
	node.send(wire.ModelNotAvailable{
		ServiceID: "nmt-en-es", Version: "3.1", Reason: "CHECKSUM_MISMATCH", JobID: job.JobID, AttemptID: job.AttemptID,
	})
	node.send(wire.JobFail{ActiveJob: job, Reason: "MODEL_NOT_AVAILABLE"})
	expect[wire.JobResultAck](node)
}

// recordNodeRemoteAudio records a node whose jobs come from a session on another instance: audio and speech are transferred over
// HTTP.
func recordNodeRemoteAudio(t *testing.T, rec *recorder) {
	a, b := startTwo(t)
	rec.note(instanceNote("the node is connected to", b) + "; the session is connected to instance a")
	node, _ := registerNode(t, b, nil)
	node.rec = rec
	start := startOf(wire.EncodingOpus)
	start.TTS = true
	client, _ := startSession(t, a, nil, start)
	speak(client, 1, "u-1", packets(3)...)
	assign, job := accept(node)
	transfer(t, rec, http.MethodGet, "audio.url", assign.Audio.URL, nil)
	transfer(t, rec, http.MethodPut, "tts_upload", assign.TTSUpload, tone(100))
	node.send(wire.JobResult{ActiveJob: job, Result: []byte(`{"text_src":"hello","text_tgt":"hola","tts":true}`)})
	expect[wire.JobResultAck](node)
}

// transfer fetches audio or uploads speech, and records the request and the answer.
func transfer(t *testing.T, rec *recorder, method, field, url string, body []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request := "the node requests " + method + " " + field
	if body != nil {
		r.Header.Set(wire.AudioHeader, "pcm_s16le; rate=16000; channels=1")
		request += ", with " + wire.AudioHeader + ": " + r.Header.Get(wire.AudioHeader)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: waitTimeout}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %s %v", request, resp.Status, answer, err)
	}
	rec.note(request)
	if body == nil {
		rec.note("the answer is 200, Content-Type: " + resp.Header.Get("Content-Type") + ", " + wire.AudioHeader + ": " + resp.Header.Get(wire.AudioHeader))
		return
	}
	rec.note("the answer is 200 " + string(bytes.TrimSpace(answer)))
}

func recordNodeErrors(t *testing.T, rec *recorder) {
	i := startInstance(t)
	node, _ := registerNode(t, i, nil)
	node.rec = rec
	node.sendText([]byte(`{"type":"node_hello"}`))
	expect[wire.ErrorFrame](node)
	node.send(wire.NodeHeartbeat{Declaration: wire.Declaration{SemanticLangs: []string{"en", "klingon!"}}})
	expect[wire.ErrorFrame](node)
	rec.note("another process registers as gpu-1")
	registerNode(t, i, nil)
	expect[wire.ErrorFrame](node)
	node.expectClose(wire.CloseReplaced)
}

func recordNodeLeave(t *testing.T, rec *recorder) {
	i := startInstance(t)
	node, ack := registerNode(t, i, nil)
	node.rec = rec
	_, job := giveJob(t, i, node)
	rec.note("the node is asked to stop, and wants no new jobs")
	node.send(wire.NodeHeartbeat{Epoch: &ack.Epoch, Declaration: wire.Declaration{
		Health: "draining", Active: []wire.ActiveAttempt{{ActiveJob: job, AudioChunks: 1}},
	}})
	sendResult(node, job)
	expect[wire.JobResultAck](node)
	node.send(wire.NodeLeave{})
	node.expectClose(wire.CloseNormal)
}

func recordNodeKeepalive(t *testing.T, rec *recorder) {
	node := connect(t, startInstance(t), "/ws/node", rec)
	node.send(wire.NodeRegister{NodeID: nodeName, KeepaliveMS: 1500, Declaration: declaration()})
	expect[wire.NodeRegisterAck](node)
	rec.note("nothing else is to be sent for a while")
	expect[wire.Keepalive](node)
}
