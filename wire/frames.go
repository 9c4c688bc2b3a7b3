package wire

// Side is who sends a frame.
type Side string

// The sides of the two sockets.
const (
	FromNode     Side = "node"
	FromClient   Side = "client"
	ToNode       Side = "scheduler to node"
	ToClient     Side = "scheduler to client"
	nodeSocket        = "/ws/node"
	clientSocket      = "/ws/session"
)

// FrameInfo is one line of the table of frames.
type FrameInfo struct {
	Frame Frame
	Side  Side
	About string
}

// Path is the socket it belongs to.
func (i FrameInfo) Path() string {
	if i.Side == FromNode || i.Side == ToNode {
		return nodeSocket
	}
	return clientSocket
}

// Frames lists every text frame there is, in the order in which a conversation meets them. The description of the
// sockets is made from it.
func Frames() []FrameInfo {
	return []FrameInfo{
		{NodeRegister{}, FromNode, "The first message: who the node is and what it can do, or a resumption."},
		{NodeRegisterAck{}, ToNode, "The node is registered, or goes on. It also comes unasked when the scheduler had to register the node again."},
		{NodeHeartbeat{}, FromNode, "The node is alive, and has this in hand."},
		{JobAssign{}, ToNode, "A job. It is answered at once with job_ack or job_reject."},
		{JobAck{}, FromNode, "The node has the job and will work on it."},
		{JobReject{}, FromNode, "The node does not take the job."},
		{JobPartial{}, FromNode, "What there is so far."},
		{JobResult{}, FromNode, "The result, sent again until it is acknowledged."},
		{JobFail{}, FromNode, "The node could not do the job; sent again until it is acknowledged."},
		{JobResultAck{}, ToNode, "The job is over for the node."},
		{JobCancel{}, ToNode, "The node should stop a job."},
		{JobCancelled{}, FromNode, "It has."},
		{ModelNotAvailable{}, FromNode, "A service is missing after all."},
		{Drain{}, ToNode, "The operator wants the node to get nothing new, or does again."},
		{GoAway{}, ToNode, "Connect again elsewhere."},
		{Warning{}, ToNode, "Something was left aside."},
		{ErrorFrame{}, ToNode, "Something went wrong."},

		{SessionStart{}, FromClient, "The first message: a conversation begins."},
		{SessionStarted{}, ToClient, "It has begun, with these limits."},
		{SessionResume{}, FromClient, "The first message: a conversation goes on after its connection was lost."},
		{SessionResumed{}, ToClient, "It goes on."},
		{UtteranceStart{}, FromClient, "An utterance begins."},
		{AudioChunk{}, FromClient, "Audio, or the end of an utterance."},
		{AudioAck{}, ToClient, "Audio has arrived up to here."},
		{AudioGone{}, FromClient, "The audio that was asked for again is not there any more."},
		{UtteranceCommitted{}, ToClient, "An utterance has ended and became a job."},
		{Partial{}, ToClient, "What there is so far of an utterance."},
		{Result{}, ToClient, "How an utterance ended well."},
		{ResultAck{}, FromClient, "Durable messages have arrived up to here."},
		{SessionUpdate{}, FromClient, "Changes from the next utterance on."},
		{Cancel{}, FromClient, "An utterance is given up."},
		{Keepalive{}, FromClient, "Somebody is there."},
		{SessionEnd{}, FromClient, "The conversation is over."},
		{SessionEnded{}, ToClient, "The last message, with the totals."},
		{GoAway{}, ToClient, "Connect again elsewhere."},
		{Warning{}, ToClient, "Something was left aside."},
		{ErrorFrame{}, ToClient, "Something went wrong; if it names an utterance, that is how the utterance ended."},
	}
}
