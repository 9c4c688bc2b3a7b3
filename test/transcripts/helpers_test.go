package transcripts

import (
	"fmt"
	"testing"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/wire"
)

// declaration is what the nodes of the transcripts declare.
func declaration(active ...wire.ActiveAttempt) wire.Declaration {
	slots := 2
	return wire.Declaration{
		Health: "ready", SemanticLangs: []string{"en", "es"}, TTSLangs: []string{"en", "es"}, MaxConcurrentJobs: &slots,
		Active: append([]wire.ActiveAttempt{}, active...),
	}
}

const (
	nodeName    = "gpu-1"
	sessionName = "room-888"
)

// registerNode connects and registers a node.
func registerNode(t *testing.T, i *clustertest.Instance, rec *recorder) (*peer, wire.NodeRegisterAck) {
	t.Helper()
	p := connect(t, i, "/ws/node", rec)
	p.send(wire.NodeRegister{NodeID: nodeName, Declaration: declaration()})
	return p, expect[wire.NodeRegisterAck](p)
}

// registerAgain connects a node that was registered before.
func registerAgain(t *testing.T, i *clustertest.Instance, rec *recorder, token string, active ...wire.ActiveAttempt) (*peer, wire.NodeRegisterAck) {
	t.Helper()
	p := connect(t, i, "/ws/node", rec)
	p.send(wire.NodeRegister{NodeID: nodeName, ResumeToken: token, Declaration: declaration(active...)})
	return p, expect[wire.NodeRegisterAck](p)
}

// heartbeat sends a heartbeat.
func heartbeat(p *peer, epoch int64, number uint64, active ...wire.ActiveAttempt) {
	p.t.Helper()
	cpu, gpu := 0.21, 0.4
	p.send(wire.NodeHeartbeat{Epoch: &epoch, HBSeq: &number, Declaration: wire.Declaration{
		Active: append([]wire.ActiveAttempt{}, active...), CurrentLoad: &wire.Load{CPU: &cpu, GPU: &gpu},
	}})
}

// accept reads an assignment and acknowledges it.
func accept(p *peer) (wire.JobAssign, wire.ActiveJob) {
	p.t.Helper()
	assign := expect[wire.JobAssign](p)
	job := wire.ActiveJob{JobID: assign.JobID, AttemptID: assign.AttemptID}
	p.send(wire.JobAck{ActiveJob: job})
	return assign, job
}

// translation is the result that the nodes of the transcripts send.
const translation = `{"text_src":"hello","text_tgt":"hola","latency":{"asr":120,"nmt":60}}`

// sendResult sends a result.
func sendResult(p *peer, job wire.ActiveJob) {
	p.t.Helper()
	p.send(wire.JobResult{ActiveJob: job, Result: []byte(translation)})
}

// serveJobs takes the next jobs to their results, on a node that is not recorded.
func serveJobs(p *peer, n int) {
	p.t.Helper()
	for n > 0 {
		kind, data, err := p.read()
		if err != nil {
			p.t.Fatal(err)
		}
		if kind == websocket.MessageBinary {
			if h, _, err := wire.ReadBinary(data); err != nil {
				p.t.Fatal(err)
			} else if h.Last {
				sendResult(p, h.ActiveJob)
			}
			continue
		}
		var f struct {
			wire.JobResultAck
			Type wire.FrameType `json:"type"`
		}
		if err := wire.Decode(data, &f); err != nil {
			p.t.Fatal(err)
		}
		switch {
		case f.Type == wire.JobAssign{}.Type():
			p.send(wire.JobAck{ActiveJob: f.ActiveJob})
		case f.Type == wire.JobResultAck{}.Type() && f.Accepted:
			n--
		default:
			p.t.Fatalf("a helper received %s", data)
		}
	}
}

// waitConnections waits until an instance has only so many WebSockets: it has noticed that others are lost.
func waitConnections(t *testing.T, i *clustertest.Instance, n float64) {
	t.Helper()
	err := clustertest.Eventually(t.Context(), waitTimeout, func() error {
		metrics, err := i.Metrics(t.Context())
		if err == nil && metrics["lingua_socket_connections"] != n {
			err = fmt.Errorf("there are %v connections, want %v", metrics["lingua_socket_connections"], n)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// startOf is the first message of the sessions of the transcripts: with numbered frames, and utterances that only the client
// ends.
func startOf(encoding string) wire.SessionStart {
	rate := 16_000
	if encoding == wire.EncodingOpus {
		rate = 48_000
	}
	return wire.SessionStart{
		SessionID: sessionName, Langs: []string{"en", "es"},
		Audio:        wire.SessionAudio{Encoding: encoding, SampleRate: rate, Channels: 1, Framing: wire.FramingNumbered},
		Segmentation: wire.SessionSegmentation{Mode: wire.SegmentManual},
	}
}

// startSession connects and starts a session.
func startSession(t *testing.T, i *clustertest.Instance, rec *recorder, start wire.SessionStart) (*peer, wire.SessionStarted) {
	t.Helper()
	p := connect(t, i, "/ws/session", rec)
	p.send(start)
	return p, expect[wire.SessionStarted](p)
}

// resumeSession connects and resumes a session.
func resumeSession(t *testing.T, i *clustertest.Instance, rec *recorder, token string, lastSeq int64) (*peer, wire.SessionResumed) {
	t.Helper()
	p := connect(t, i, "/ws/session", rec)
	p.send(wire.SessionResume{SessionID: sessionName, ResumeToken: token, LastSeq: lastSeq})
	return p, expect[wire.SessionResumed](p)
}

// speak sends an utterance of some packets and ends it. It returns the number of the next frame.
func speak(p *peer, seq int64, utterance string, frames ...[]byte) int64 {
	p.t.Helper()
	p.send(wire.UtteranceStart{UtteranceID: utterance})
	for _, data := range frames {
		p.sendAudio(seq, data)
		seq++
	}
	p.send(wire.AudioChunk{Seq: seq, UtteranceID: utterance, IsFinal: true})
	return seq + 1
}

// packets are Opus packets, one for each frame.
func packets(n int) [][]byte {
	list := make([][]byte, n)
	for i := range list {
		list[i] = opusPacket(byte(i + 1))
	}
	return list
}
