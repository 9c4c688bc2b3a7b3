package transcripts

import (
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

func recordSessionHappyPath(t *testing.T, rec *recorder) {
	i := startInstance(t)
	node, _ := registerNode(t, i, nil)
	start := startOf(wire.EncodingPCM)
	start.Partials, start.ResumeToken = true, "a-secret-of-the-client-0001"
	client, _ := startSession(t, i, rec, start)
	client.send(wire.UtteranceStart{UtteranceID: "u-1", SrcLang: "en", RequestID: "room-888-1"})
	compareHex(t, "session-audio", client.sendAudio(1, tone(20))[:24])
	for seq := int64(2); seq <= 12; seq++ {
		client.sendAudio(seq, tone(20))
	}
	expect[wire.AudioAck](client)
	client.send(wire.AudioChunk{Seq: 13, UtteranceID: "u-1", IsFinal: true})
	expect[wire.AudioAck](client)
	expect[wire.UtteranceCommitted](client)
	_, job := accept(node)
	node.expectAudio()
	node.send(wire.JobPartial{ActiveJob: job, Rev: 1, Stage: "asr", TextSrc: "hello"})
	expect[wire.SessionPartial](client)
	sendResult(node, job)
	result := expect[wire.SessionResult](client)
	client.send(wire.SessionResultAck{Seq: result.Seq})
	client.send(wire.SessionEnd{})
	expect[wire.SessionEnded](client)
	client.expectClose(wire.CloseNormal)
}

func recordSessionSpeech(t *testing.T, rec *recorder) {
	i := startInstance(t)
	node, _ := registerNode(t, i, nil)
	start := startOf(wire.EncodingOpus)
	start.TTS = true
	client, _ := startSession(t, i, nil, start)
	client.rec = rec
	speak(client, 1, "u-1", packets(2)...)
	expect[wire.AudioAck](client)
	expect[wire.UtteranceCommitted](client)
	_, job := accept(node)
	node.expectAudio()
	format := &wire.AudioFormat{Encoding: wire.EncodingOpus, SampleRate: 24_000, Channels: 1}
	node.send(wire.JobResult{ActiveJob: job, Result: []byte(translation), TTS: true, TTSAudio: format})
	node.sendSpeech(wire.BinaryHeader{Kind: wire.KindTTS, ActiveJob: job}, opusPacket(1))
	node.sendSpeech(wire.BinaryHeader{Kind: wire.KindTTS, ActiveJob: job, Chunk: 1, Last: true}, opusPacket(2))
	result := expect[wire.SessionResult](client)
	client.send(wire.SessionResultAck{Seq: result.Seq})
	client.expectAudio()
}

func recordSessionResume(t *testing.T, rec *recorder) {
	i := startInstance(t)
	node, _ := registerNode(t, i, nil)
	client, started := startSession(t, i, nil, startOf(wire.EncodingPCM))
	client.rec = rec
	next := speak(client, 1, "u-1", tone(20), tone(20))
	expect[wire.AudioAck](client)
	expect[wire.UtteranceCommitted](client)
	client.send(wire.UtteranceStart{UtteranceID: "u-2"})
	for seq := next; seq < next+10; seq++ {
		client.sendAudio(seq, tone(20))
	}
	next = expect[wire.AudioAck](client).Seq + 1
	client.cut()
	waitConnections(t, i, 1)
	rec.note("u-1 gets its result before the client connects again")
	serveJobs(node, 1)
	client, resumed := resumeSession(t, i, rec, started.ResumeToken, 0)
	expect[wire.UtteranceCommitted](client)
	result := expect[wire.SessionResult](client)
	client.send(wire.SessionResultAck{Seq: result.Seq})
	if resumed.NextAudioSeq != next {
		t.Errorf("continue with frame %d, want %d", resumed.NextAudioSeq, next)
	}
	client.sendAudio(next, tone(20))
	client.send(wire.AudioChunk{Seq: next + 1, UtteranceID: "u-2", IsFinal: true})
	expect[wire.AudioAck](client)
	expect[wire.UtteranceCommitted](client)
}

func recordSessionFailover(t *testing.T, rec *recorder) {
	a, b := startTwo(t)
	rec.note(instanceNote("the session is connected to", a))
	client, started := startSession(t, a, nil, startOf(wire.EncodingPCM))
	client.rec = rec
	next := speak(client, 1, "u-1", tone(20), tone(20))
	expect[wire.AudioAck](client)
	expect[wire.UtteranceCommitted](client)
	client.send(wire.UtteranceStart{UtteranceID: "u-2"})
	client.sendAudio(next, tone(20))
	a.Kill()
	client.cut()
	rec.note(instanceNote("instance a has died, and the audio with it; the client resumes on", b))
	client, _ = resumeSession(t, b, rec, started.ResumeToken, 0)
	expect[wire.UtteranceCommitted](client)
	rec.note("the client sends everything from next_audio_seq on again, as it was")
	next = speak(client, 1, "u-1", tone(20), tone(20))
	client.send(wire.UtteranceStart{UtteranceID: "u-2"})
	client.sendAudio(next, tone(20))
	client.send(wire.AudioChunk{Seq: next + 1, UtteranceID: "u-2", IsFinal: true})
	expect[wire.AudioAck](client)
	expect[wire.UtteranceCommitted](client)
	node, _ := registerNode(t, b, nil)
	serveJobs(node, 2)
	expect[wire.SessionResult](client)
	result := expect[wire.SessionResult](client)
	client.send(wire.SessionResultAck{Seq: result.Seq})
}

func recordSessionAudioGone(t *testing.T, rec *recorder) {
	a, b := startTwo(t)
	rec.note(instanceNote("the session is connected to", a))
	client, started := startSession(t, a, nil, startOf(wire.EncodingPCM))
	client.rec = rec
	next := speak(client, 1, "u-1", tone(20), tone(20))
	expect[wire.AudioAck](client)
	expect[wire.UtteranceCommitted](client)
	a.Kill()
	client.cut()
	rec.note(instanceNote("instance a has died; the client, which has not kept the audio of u-1, resumes on", b))
	client, resumed := resumeSession(t, b, rec, started.ResumeToken, 0)
	expect[wire.UtteranceCommitted](client)
	client.send(wire.AudioGone{UtteranceIndex: resumed.AudioNeeded[0].UtteranceIndex})
	expect[wire.AudioAck](client)
	failed := expect[wire.ErrorFrame](client)
	client.send(wire.SessionResultAck{Seq: failed.Seq})
	rec.note("the session goes on with frame 4")
	speak(client, next, "u-2", tone(20))
	expect[wire.AudioAck](client)
	expect[wire.UtteranceCommitted](client)
}

func recordSessionGoAway(t *testing.T, rec *recorder) {
	a, b := startTwo(t)
	rec.note(instanceNote("the session is connected to", a))
	node, _ := registerNode(t, b, nil)
	client, started := startSession(t, a, nil, startOf(wire.EncodingPCM))
	client.rec = rec
	next := speak(client, 1, "u-1", tone(20))
	expect[wire.AudioAck](client)
	expect[wire.UtteranceCommitted](client)
	_, job := accept(node)
	terminate(t, a)
	expect[wire.GoAway](client)
	rec.note("the session still works; the client sends the utterance that it is in to its end")
	speak(client, next, "u-2", tone(20))
	expect[wire.AudioAck](client)
	expect[wire.UtteranceCommitted](client)
	_, second := accept(node)
	rec.note("after a random time in the first half of reconnect_ms the client leaves, and resumes on instance b")
	client.close()
	client, _ = resumeSession(t, b, rec, started.ResumeToken, 0)
	expect[wire.UtteranceCommitted](client)
	expect[wire.UtteranceCommitted](client)
	rec.note("the node has the audio of both jobs; the client cannot know that, and sends what is needed again")
	next = speak(client, 1, "u-1", tone(20))
	speak(client, next, "u-2", tone(20))
	sendResult(node, job)
	expect[wire.SessionResult](client)
	sendResult(node, second)
	result := expect[wire.SessionResult](client)
	client.send(wire.SessionResultAck{Seq: result.Seq})
}

func recordSessionCancel(t *testing.T, rec *recorder) {
	i := startInstance(t)
	node, _ := registerNode(t, i, nil)
	client, _ := startSession(t, i, nil, startOf(wire.EncodingPCM))
	client.rec = rec
	rec.note("an utterance that waits for its result")
	next := speak(client, 1, "u-1", tone(20))
	expect[wire.AudioAck](client)
	expect[wire.UtteranceCommitted](client)
	_, job := accept(node)
	node.expectAudio()
	client.send(wire.SessionCancel{UtteranceID: "u-1"})
	failed := expect[wire.ErrorFrame](client)
	client.send(wire.SessionResultAck{Seq: failed.Seq})
	expect[wire.JobCancel](node)
	node.send(wire.JobCancelled{ActiveJob: job})
	rec.note("the open utterance: it is dropped, and there is no message about it")
	client.send(wire.UtteranceStart{UtteranceID: "u-2"})
	client.sendAudio(next, tone(20))
	client.send(wire.SessionCancel{UtteranceID: "u-2"})
	rec.note("an utterance that has ended, or that was never there")
	client.send(wire.SessionCancel{UtteranceID: "u-2"})
	expect[wire.ErrorFrame](client)
	rec.note("audio goes on being counted: the next utterance has the next index")
	speak(client, next+1, "u-3", tone(20))
	expect[wire.AudioAck](client)
	expect[wire.UtteranceCommitted](client)
}

func recordSessionContinuation(t *testing.T, rec *recorder) {
	i := startInstance(t)
	node, _ := registerNode(t, i, nil)
	start := startOf(wire.EncodingPCM)
	start.Segmentation = wire.SessionSegmentation{}
	client, _ := startSession(t, i, nil, start)
	client.rec = rec
	client.send(wire.UtteranceStart{UtteranceID: "u-1", RequestID: "room-888-1"})
	client.sendAudio(1, tone(100))
	client.sendAudio(2, tone(100))
	rec.note("the client sends no audio for pause_ms, and answers the ping that follows")
	expect[wire.AudioAck](client)
	expect[wire.UtteranceCommitted](client)
	rec.note("the audio was only late")
	client.send(wire.AudioChunk{Seq: 3, UtteranceID: "u-1", Data: tone(1)})
	client.send(wire.AudioChunk{Seq: 4, UtteranceID: "u-1", IsFinal: true})
	expect[wire.AudioAck](client)
	expect[wire.UtteranceCommitted](client)
	serveJobs(node, 2)
	expect[wire.SessionResult](client)
	result := expect[wire.SessionResult](client)
	client.send(wire.SessionResultAck{Seq: result.Seq})
}

func recordSessionLimit(t *testing.T, rec *recorder) {
	i := startInstance(t, "LINGUA_SCHEDULER_SESSIONS_OPEN_UTTERANCES=1")
	node, _ := registerNode(t, i, nil)
	client, _ := startSession(t, i, nil, startOf(wire.EncodingPCM))
	client.rec = rec
	rec.note("the limit open_utterances is 1 here")
	next := speak(client, 1, "u-1", tone(20))
	expect[wire.AudioAck](client)
	expect[wire.UtteranceCommitted](client)
	speak(client, next, "u-2", tone(20))
	expect[wire.AudioAck](client)
	expect[wire.UtteranceCommitted](client)
	rec.note("u-2 has failed already; its error waits for the result of u-1, because terminal messages come in order")
	serveJobs(node, 1)
	expect[wire.SessionResult](client)
	failed := expect[wire.ErrorFrame](client)
	client.send(wire.SessionResultAck{Seq: failed.Seq})
}

func recordSessionPace(t *testing.T, rec *recorder) {
	i := startInstance(t)
	client, started := startSession(t, i, nil, startOf(wire.EncodingPCM))
	client.rec = rec
	rec.note("the client sends 12 seconds of audio at once; limits.buffered_ms is 10000")
	for seq := int64(1); seq <= 6; seq++ {
		client.sendAudio(seq, tone(2000))
	}
	refused := expect[wire.ErrorFrame](client)
	client.expectClose(wire.CloseOverloaded)
	rec.note("the client waits for retry_after_ms and resumes")
	<-time.After(time.Duration(refused.RetryAfterMS) * time.Millisecond) // what the protocol asks for
	client, resumed := resumeSession(t, i, rec, started.ResumeToken, 0)
	client.sendAudio(resumed.NextAudioSeq, tone(2000))
	client.send(wire.AudioChunk{Seq: resumed.NextAudioSeq + 1, IsFinal: true})
	expect[wire.AudioAck](client)
	expect[wire.UtteranceCommitted](client)
}

func recordSessionWarnings(t *testing.T, rec *recorder) {
	i := startInstance(t)
	client, _ := startSession(t, i, nil, startOf(wire.EncodingPCM))
	client.rec = rec
	client.send(wire.AudioChunk{Seq: 1, UtteranceID: "u-1", RequestID: "room-888-1", Data: tone(1), IsFinal: true})
	expect[wire.AudioAck](client)
	expect[wire.UtteranceCommitted](client)
	rec.note("audio that names an utterance which the client has ended")
	client.send(wire.AudioChunk{Seq: 2, UtteranceID: "u-1", Data: tone(1)})
	expect[wire.Warning](client)
	rec.note("a request_id that was used before in this session")
	client.send(wire.AudioChunk{Seq: 3, UtteranceID: "u-2", RequestID: "room-888-1", Data: tone(1), IsFinal: true})
	expect[wire.Warning](client)
	rec.note("a gap in the numbers")
	client.send(wire.AudioChunk{Seq: 7, UtteranceID: "u-3", Data: tone(1)})
	expect[wire.ErrorFrame](client)
}

func recordSessionUpdate(t *testing.T, rec *recorder) {
	i := startInstance(t)
	client, _ := startSession(t, i, nil, startOf(wire.EncodingPCM))
	client.rec = rec
	client.send(wire.Keepalive{})
	wanted := true
	client.send(wire.SessionUpdate{SrcLang: "es", Partials: &wanted, Segmentation: &wire.SessionSegmentation{PauseMS: 700}})
	speak(client, 1, "u-1", tone(20))
	expect[wire.AudioAck](client)
	expect[wire.UtteranceCommitted](client)
}

func recordSessionKeepalive(t *testing.T, rec *recorder) {
	i := startInstance(t)
	client, started := startSession(t, i, nil, startOf(wire.EncodingPCM))
	client.cut()
	waitConnections(t, i, 0)
	client = connect(t, i, "/ws/session", rec)
	client.send(wire.SessionResume{SessionID: sessionName, ResumeToken: started.ResumeToken, KeepaliveMS: 1500})
	expect[wire.SessionResumed](client)
	rec.note("nothing else is to be sent for a while")
	expect[wire.Keepalive](client)
}
