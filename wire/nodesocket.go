package wire

import "encoding/json"

// The messages of /ws/node. The first a node sends is NodeRegister.

// NodeRegister says who the node is and what it can do, or resumes an earlier connection.
type NodeRegister struct {
	NodeID      string `json:"node_id,omitempty" maxLength:"128" pattern:"^[A-Za-z0-9._:-]+$" doc:"The node's name; one is made if it is absent."`
	ResumeToken string `json:"resume_token,omitempty" doc:"Of the connection before. The life of the node goes on if it is still known; else a new one begins."`
	Declaration
}

// NodeRegisterAck answers it.
type NodeRegisterAck struct {
	NodeID              string      `json:"node_id"`
	Epoch               int64       `json:"epoch" doc:"The life of the node that this registration began or resumed."`
	ResumeToken         string      `json:"resume_token"`
	HeartbeatIntervalMS int64       `json:"heartbeat_interval_ms" doc:"How often to send a heartbeat, give or take a fifth."`
	Status              string      `json:"status" enum:"registered,resumed"`
	Cancel              []ActiveJob `json:"cancel,omitempty" doc:"Jobs of its list that the node should stop."`
	NoAudio             []ActiveJob `json:"no_audio,omitempty" doc:"Jobs of its list whose audio is not on this instance: chunks that have not arrived will not. A job that misses some is best failed with AUDIO_LOST at once."`
}

// NodeHeartbeat says that the node is alive, and what it has in hand.
type NodeHeartbeat struct {
	Epoch *int64  `json:"epoch,omitempty" doc:"As acknowledged last: a heartbeat that crossed another acknowledgement is left aside."`
	HBSeq *uint64 `json:"hb_seq,omitempty" doc:"Counts the node's heartbeats from 1: one that was overtaken by a later one changes nothing."`
	Declaration
}

// JobAssign gives the node a job. Audio that is not at a URL follows in binary frames.
type JobAssign struct {
	JobID      string          `json:"job_id"`
	AttemptID  int             `json:"attempt_id"`
	SessionID  string          `json:"session_id"`
	SrcLang    string          `json:"src_lang"`
	TgtLang    string          `json:"tgt_lang"`
	Options    DispatchOptions `json:"options"`
	DeadlineMS int64           `json:"deadline_ms" doc:"When the attempt is over, Unix milliseconds on the scheduler's clock."`
	TimeoutMS  int64           `json:"timeout_ms" doc:"The same as a duration from now, for a node whose clock may differ."`
	Partials   bool            `json:"partials,omitempty" doc:"Somebody reads partial results."`
	Audio      *Audio          `json:"audio,omitempty"`
	TTSUpload  string          `json:"tts_upload,omitempty" doc:"Where to PUT the spoken result, before the result, if it is wanted and not sent in binary frames; the result then says tts: true."`
}

// JobAck says that the node has the job and will work on it.
type JobAck struct{ ActiveJob }

// JobReject says that the node will not take the job: NODE_BUSY costs the job no attempt.
type JobReject struct {
	ActiveJob
	Reason string `json:"reason"`
}

// JobPartial is what a node has so far. A higher rev replaces a lower.
type JobPartial struct {
	ActiveJob
	Rev     int64  `json:"rev"`
	Stage   string `json:"stage,omitempty" enum:"asr,semantic,nmt,tts"`
	TextSrc string `json:"text_src,omitempty"`
	TextTgt string `json:"text_tgt,omitempty"`
}

// JobResult is a node's result. The node keeps it, and sends it again, until it is acknowledged.
type JobResult struct {
	ActiveJob
	Result json.RawMessage `json:"result" doc:"An object such as {text_src, text_tgt, latency}; kept with the job as it is."`
	TTS    bool            `json:"tts,omitempty" doc:"The spoken result follows in binary frames."`
	// TTSAudio is what the frames hold. Their first may say it too, and then says the same.
	TTSAudio *AudioFormat `json:"tts_audio,omitempty" doc:"The format of the spoken result; pcm_s16le, 16000, 1 where it does not say."`
}

// JobFail says that the node could not do the job.
type JobFail struct {
	ActiveJob
	Reason string `json:"reason,omitempty" doc:"NODE_BUSY costs the job no attempt."`
}

// JobResultAck says that a result, or a failure, was taken or is not wanted any more: the node may forget the job.
type JobResultAck struct {
	ActiveJob
	Accepted bool `json:"accepted" doc:"False: somebody else has the job, or it had ended."`
	Code     Code `json:"error,omitempty" doc:"Why it was not accepted."`
}

// JobCancel asks the node to stop a job.
type JobCancel struct{ ActiveJob }

// JobCancelled says that the node has stopped it.
type JobCancelled struct{ ActiveJob }

// ModelNotAvailable says that a service is missing after all.
type ModelNotAvailable struct {
	ServiceID string `json:"service_id"`
	Version   string `json:"version,omitempty"`
	Reason    string `json:"reason,omitempty"`
	JobID     string `json:"job_id,omitempty" doc:"The job that failed for it, if one did: it is retried on another node."`
	AttemptID int    `json:"attempt_id,omitempty"`
}

// Drain tells the node that it gets nothing new, or that it does again.
type Drain struct {
	Drained bool `json:"drained"`
}

// Type implements Frame.
func (NodeRegister) Type() FrameType { return "node_register" }

// Type implements Frame.
func (NodeRegisterAck) Type() FrameType { return "node_register_ack" }

// Type implements Frame.
func (NodeHeartbeat) Type() FrameType { return "node_heartbeat" }

// Type implements Frame.
func (JobAssign) Type() FrameType { return "job_assign" }

// Type implements Frame.
func (JobAck) Type() FrameType { return "job_ack" }

// Type implements Frame.
func (JobReject) Type() FrameType { return "job_reject" }

// Type implements Frame.
func (JobPartial) Type() FrameType { return "job_partial" }

// Type implements Frame.
func (JobResult) Type() FrameType { return "job_result" }

// Type implements Frame.
func (JobFail) Type() FrameType { return "job_fail" }

// Type implements Frame.
func (JobResultAck) Type() FrameType { return "job_result_ack" }

// Type implements Frame.
func (JobCancel) Type() FrameType { return "job_cancel" }

// Type implements Frame.
func (JobCancelled) Type() FrameType { return "job_cancelled" }

// Type implements Frame.
func (ModelNotAvailable) Type() FrameType { return "model_not_available" }

// Type implements Frame.
func (Drain) Type() FrameType { return "drain" }
