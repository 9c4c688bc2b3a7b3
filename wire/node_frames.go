package wire

import "encoding/json"

// This file holds the frames of /ws/node. The first frame of a node is NodeRegister.

// NodeRegister registers a node, or resumes its registration over a new connection.
type NodeRegister struct {
	NodeID      string `json:"node_id,omitempty" maxLength:"128" pattern:"^[A-Za-z0-9._:-]+$" doc:"The node's id. Absent: the scheduler generates one."`
	ResumeToken string `json:"resume_token,omitempty" doc:"The token of the previous registration, needed while the node is present. The epoch continues if the scheduler still knows it; otherwise a new one begins. One of 16 to 128 random characters that a node chooses for its first registration makes that repeatable."`
	KeepaliveMS int64  `json:"keepalive_ms,omitempty" minimum:"1500" maximum:"60000" doc:"Send a message over this connection at least this often: keepalive, if there is no other. Absent: do not."`
	Declaration
}

// NodeRegisterAck is the answer to NodeRegister.
type NodeRegisterAck struct {
	NodeID              string      `json:"node_id"`
	Epoch               int64       `json:"epoch" doc:"The epoch that this registration began or resumed."`
	ResumeToken         string      `json:"resume_token"`
	HeartbeatIntervalMS int64       `json:"heartbeat_interval_ms" doc:"The interval of heartbeats, to be jittered by a fifth."`
	Status              string      `json:"status" enum:"registered,resumed"`
	Cancel              []ActiveJob `json:"cancel,omitempty" doc:"Active jobs that the node should stop."`
	NoAudio             []ActiveJob `json:"no_audio,omitempty" doc:"Active jobs whose audio is not on this instance: chunks that were not received will not be sent. A node should fail such a job with AUDIO_LOST at once if chunks are missing."`
	Warnings            []string    `json:"warnings,omitempty" doc:"What the author of the node should change: fields that are not known, or that are missing and have a default."`
	KeepaliveMS         int64       `json:"keepalive_ms,omitempty" doc:"In the answer to node_register: how often at least a message comes over this connection. Absent: messages come when there are any."`
}

// NodeHeartbeat reports that the node is alive, which jobs it has, and changes of its declaration.
type NodeHeartbeat struct {
	Epoch *int64  `json:"epoch,omitempty" doc:"The epoch acknowledged last. A heartbeat of an earlier epoch is ignored."`
	HBSeq *uint64 `json:"hb_seq,omitempty" minimum:"1" doc:"The number of the heartbeat, from 1. A heartbeat that arrives after a later one is ignored."`
	Declaration
}

// JobAssign assigns a job to the node. Audio that is not at a URL follows in binary frames.
type JobAssign struct {
	JobID      string          `json:"job_id"`
	AttemptID  int             `json:"attempt_id"`
	SessionID  string          `json:"session_id"`
	SrcLang    string          `json:"src_lang"`
	TgtLang    string          `json:"tgt_lang"`
	Options    DispatchOptions `json:"options"`
	DeadlineMS int64           `json:"deadline_ms" doc:"The deadline of the attempt, Unix milliseconds on the scheduler's clock."`
	TimeoutMS  int64           `json:"timeout_ms" doc:"The same as a duration from now, for nodes with another clock."`
	Partials   bool            `json:"partials,omitempty" doc:"The client wants partial results."`
	Audio      *Audio          `json:"audio,omitempty"`
	TTSUpload  string          `json:"tts_upload,omitempty" doc:"Where to PUT the speech, before the result is sent, which then has tts: true. Absent: no speech is wanted, or it is sent in binary frames."`
	Probe      bool            `json:"probe,omitempty" doc:"A synthetic utterance by which an operator tests this node: a moment of silence, as a data URL in audio.ref. A drained node accepts it, too."`
	// Traceparent is present if the scheduler traces. A node that does too continues the trace with it.
	Traceparent string `json:"traceparent,omitempty" maxLength:"55" doc:"The W3C trace context of the attempt, in the format of the HTTP header of this name. A node that traces continues it; others ignore it."`
}

// JobAck confirms that the node has received the job and will work on it.
type JobAck struct{ ActiveJob }

// JobReject refuses a job. With the reason NODE_BUSY the job loses no attempt.
type JobReject struct {
	ActiveJob
	Reason string `json:"reason" doc:"NODE_BUSY: the node has no free slot, and the job loses no attempt. Other names as in job_fail."`
}

// JobPartial is a partial result. A higher rev replaces a lower one.
type JobPartial struct {
	ActiveJob
	Rev     int64  `json:"rev" minimum:"1" doc:"Counts up within the attempt."`
	Stage   string `json:"stage,omitempty" enum:"asr,semantic,nmt,tts" doc:"How far the node is."`
	TextSrc string `json:"text_src,omitempty" doc:"All that is recognised so far."`
	TextTgt string `json:"text_tgt,omitempty" doc:"All that is translated so far."`
}

// JobResult is the result of a job. The node keeps it and resends it until it is acknowledged.
type JobResult struct {
	ActiveJob
	Result json.RawMessage `json:"result" doc:"An object such as {text_src, text_tgt, latency}; kept with the job unchanged."`
	TTS    bool            `json:"tts,omitempty" doc:"Speech follows in binary frames."`
	// TTSAudio is the format of the speech. The header of its first frame may repeat it.
	TTSAudio *AudioFormat `json:"tts_audio,omitempty" doc:"The format of the speech; pcm_s16le, 16000, 1 unless given."`
}

// JobFail reports that the node could not do the job.
type JobFail struct {
	ActiveJob
	Reason string `json:"reason,omitempty" doc:"A name such as OUT_OF_MEMORY; docs/codes.md lists those with a meaning. With NODE_BUSY the job loses no attempt."`
}

// JobResultAck acknowledges a result or a failure, accepted or not: the node can forget the job.
type JobResultAck struct {
	ActiveJob
	Accepted bool   `json:"accepted" doc:"False: another attempt has the job, or the job has ended."`
	Code     Code   `json:"error,omitempty" doc:"Why it was not accepted."`
	Detail   string `json:"detail,omitempty" doc:"The same for people."`
}

// JobCancel asks the node to stop a job.
type JobCancel struct{ ActiveJob }

// JobCancelled confirms that the node has stopped a job.
type JobCancelled struct{ ActiveJob }

// ModelNotAvailable reports that a service which the node declared is not available.
type ModelNotAvailable struct {
	ServiceID string `json:"service_id"`
	Version   string `json:"version,omitempty" doc:"The version that is unavailable. Absent: all versions."`
	Reason    string `json:"reason,omitempty" doc:"Why: not_installed, installing, version_mismatch, runtime_error, state_drift, or a text that is normalised to one of these or to other."`
	JobID     string `json:"job_id,omitempty" doc:"The job that failed because of it, if any: it is retried on another node."`
	AttemptID int    `json:"attempt_id,omitempty"`
}

// Drain reports that an operator has drained the node, or has ended the drain.
type Drain struct {
	Drained bool `json:"drained"`
}

// NodeLeave says that the node stops. It is removed at once, and the jobs that it still has are given to other nodes. The scheduler
// closes the connection normally.
type NodeLeave struct{}

// Type implements Frame.
func (NodeLeave) Type() FrameType { return "node_leave" }

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
