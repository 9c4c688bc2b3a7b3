// Package wirespec describes the protocol of package wire for the scheduler and its API descriptions: which side sends a
// frame, and what an error code means for an HTTP status and a connection. Nodes and clients need none of it.
package wirespec

import "github.com/lingua-scheduler/lingua/wire"

// Side is the sender and the socket of a frame.
type Side string

// The sides of the two sockets.
const (
	FromNode      Side = "node"
	FromClient    Side = "client"
	ToNode        Side = "scheduler to node"
	ToClient      Side = "scheduler to client"
	nodeSocket         = "/ws/node"
	sessionSocket      = "/ws/session"
)

// FrameInfo is one row of the table of frames.
type FrameInfo struct {
	Frame wire.Frame
	Side  Side
	About string // one sentence for the AsyncAPI description
}

// Path returns the path of the socket that the frame is sent on.
func (i FrameInfo) Path() string {
	if i.Side == FromNode || i.Side == ToNode {
		return nodeSocket
	}
	return sessionSocket
}

// keepaliveOfSession describes one message, because both sides send it on the same socket.
const keepaliveOfSession = "Its sender is alive. Only a client that asked for it with keepalive_ms gets it."

// Frames lists every text frame in the order of a typical exchange. The AsyncAPI description is generated from it.
func Frames() []FrameInfo {
	return []FrameInfo{
		{wire.NodeRegister{}, FromNode, "The first message of a node: its identity and capabilities, or a resumption."},
		{wire.NodeRegisterAck{}, ToNode,
			"The node is registered or resumed. Also sent unsolicited when the scheduler had to register the node again."},
		{wire.NodeHeartbeat{}, FromNode, "The node is alive and holds these jobs. It has no answer."},
		{wire.JobAssign{}, ToNode, "A job. The node answers at once with job_ack or job_reject."},
		{wire.JobAck{}, FromNode, "The node has received the job and will work on it. It has no answer, or job_cancel if another node " +
			"has the job."},
		{wire.JobReject{}, FromNode, "The node does not take the job. It has no answer."},
		{wire.JobPartial{}, FromNode, "A partial result. It has no answer."},
		{wire.JobResult{}, FromNode, "The result, resent until it is acknowledged."},
		{wire.JobFail{}, FromNode, "The node could not do the job; resent until it is acknowledged."},
		{wire.JobResultAck{}, ToNode, "The outcome of the job was received: the job is over for the node."},
		{wire.JobCancel{}, ToNode, "The node should stop a job."},
		{wire.JobCancelled{}, FromNode, "The node has stopped the job."},
		{wire.ModelNotAvailable{}, FromNode, "A service that the node declared is not available."},
		{wire.NodeLeave{}, FromNode, "The node stops: it is removed, and the jobs that it still has are given to other nodes. The " +
			"connection is closed with 1000."},
		{wire.Drain{}, ToNode, "An operator has drained the node, or has ended the drain."},
		{wire.Keepalive{}, ToNode, "The scheduler is alive. Only a node that asked for it with keepalive_ms gets it."},
		{wire.GoAway{}, ToNode, "Connect to another instance: this one stops."},
		{wire.Warning{}, ToNode, "Reserved: this version sends no warnings to nodes."},
		{wire.ErrorFrame{}, ToNode, "An error: the answer to one message, or, if fatal, the reason of the close that follows."},

		{wire.SessionStart{}, FromClient, "The first message of a client: start a session."},
		{wire.SessionStarted{}, ToClient, "The session has started, with these limits."},
		{wire.SessionResume{}, FromClient, "The first message of a client: resume a session whose connection was lost."},
		{wire.SessionResumed{}, ToClient, "The session is resumed."},
		{wire.UtteranceStart{}, FromClient, "An utterance begins."},
		{wire.AudioChunk{}, FromClient, "Audio, or the end of an utterance."},
		{wire.AudioAck{}, ToClient, "All audio up to this frame was received."},
		{wire.AudioGone{}, FromClient, "The client no longer has the audio that the scheduler asked for."},
		{wire.UtteranceCommitted{}, ToClient, "An utterance has ended and became a job."},
		{wire.SessionWaiting{}, ToClient, "An utterance waits for a node with a free slot."},
		{wire.SessionPartial{}, ToClient, "A partial result of an utterance."},
		{wire.SessionResult{}, ToClient, "The result of an utterance."},
		{wire.SessionResultAck{}, FromClient, "All durable messages up to this one were received."},
		{wire.SessionUpdate{}, FromClient,
			"Other settings: segmentation applies at once, the rest from the next utterance on. It has no answer."},
		{wire.SessionCancel{}, FromClient, "Cancel an utterance."},
		{wire.Keepalive{}, FromClient, keepaliveOfSession},
		{wire.Keepalive{}, ToClient, keepaliveOfSession},
		{wire.SessionEnd{}, FromClient, "End the session."},
		{wire.SessionEnded{}, ToClient, "The last message, with the totals."},
		{wire.GoAway{}, ToClient, "Connect to another instance: this one stops."},
		{wire.Warning{}, ToClient, "Something that was sent was ignored, or speech that was announced does not come."},
		{wire.ErrorFrame{}, ToClient, "An error. If it names an utterance, the utterance ended with it. Otherwise it is the answer to " +
			"one message, or, if fatal, the reason of the close that follows."},
	}
}
