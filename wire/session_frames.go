package wire

import "encoding/json"

// This file holds the frames of /ws/session. The first frame of a client is SessionStart or SessionResume.

// SessionTokenRequest is the body of POST /v1/sessions.
type SessionTokenRequest struct {
	SessionID  string `json:"session_id,omitempty" maxLength:"128" pattern:"^[A-Za-z0-9._:-]+$" doc:"The session that the token is for. Absent: the scheduler generates an id."`
	TenantID   string `json:"tenant_id,omitempty" doc:"The tenant of the session."`
	TTLSeconds int64  `json:"ttl_seconds,omitempty" minimum:"1" maximum:"86400" doc:"How long the token is valid, 3600 unless given. A session that lasts longer sends another one in session_update."`
}

// SessionTokenResponse is the answer of POST /v1/sessions.
type SessionTokenResponse struct {
	SessionID string `json:"session_id"`
	Token     string `json:"token"`
	ExpiresMS int64  `json:"expires_ms" doc:"When the token expires, Unix milliseconds."`
}

// SessionStart starts a session between two languages. Each utterance is in one of them.
type SessionStart struct {
	SessionID    string              `json:"session_id,omitempty" maxLength:"128" pattern:"^[A-Za-z0-9._:-]+$" doc:"Absent: the id of the session token, or one that the scheduler generates."`
	ResumeToken  string              `json:"resume_token,omitempty" minLength:"16" maxLength:"128" doc:"A secret that the client chooses, of at least 16 characters, in place of one that the scheduler generates. A client that lost the answer repeats session_start with the same session_id and secret and gets the same session."`
	Langs        []string            `json:"langs" minItems:"2" maxItems:"2" doc:"The two languages, as BCP-47 tags."`
	SrcLang      string              `json:"src_lang,omitempty" doc:"The language of utterances that do not name one. The first of langs unless given."`
	TgtLang      string              `json:"tgt_lang,omitempty" doc:"The other language. Optional; it must be the one that src_lang is not."`
	Audio        SessionAudio        `json:"audio,omitzero"`
	Segmentation SessionSegmentation `json:"segmentation,omitzero"`
	Partials     bool                `json:"partials,omitempty" doc:"Send partial results."`
	TTS          bool                `json:"tts,omitempty" doc:"Send speech of the results."`
	Options      DispatchOptions     `json:"options,omitzero"`
	KeepaliveMS  int64               `json:"keepalive_ms,omitempty" minimum:"1500" maximum:"60000" doc:"Send a message over this connection at least this often: keepalive, if there is no other. Absent: do not."`
}

// The values of SessionAudio.Framing.
const (
	FramingRaw      = "raw"
	FramingNumbered = "numbered"
)

// SessionAudio is the format of a session's audio and the framing of the binary frames that carry it.
type SessionAudio struct {
	Encoding   string `json:"encoding,omitempty" enum:"pcm_s16le,opus,wav" doc:"pcm_s16le unless given."`
	SampleRate int    `json:"sample_rate,omitempty" minimum:"8000" maximum:"48000" doc:"16000 unless given."`
	Channels   int    `json:"channels,omitempty" minimum:"1" maximum:"2" doc:"1 unless given."`
	Framing    string `json:"framing,omitempty" enum:"raw,numbered" doc:"What a binary frame holds. raw, unless given: audio, which counts as the next frame. numbered: the frame's sequence number in 8 bytes, big-endian, then audio."`
}

// Format returns the format without the framing.
func (a *SessionAudio) Format() AudioFormat {
	return AudioFormat{Encoding: a.Encoding, SampleRate: a.SampleRate, Channels: a.Channels}
}

// The values of SessionSegmentation.Mode.
const (
	SegmentAuto   = "auto"
	SegmentManual = "manual"
)

// SessionSegmentation decides where an utterance ends, unless the client ends it. Zero values stand for the scheduler's
// configuration.
type SessionSegmentation struct {
	Mode           string  `json:"mode,omitempty" enum:"auto,manual" doc:"auto, unless given: by pause, silence and length. manual: only is_final, session_end and max_utterance_ms end an utterance, for clients with their own voice detection."`
	PauseMS        int64   `json:"pause_ms,omitempty" minimum:"100" maximum:"10000" doc:"End after this time without audio, or of silence."`
	MaxUtteranceMS int64   `json:"max_utterance_ms,omitempty" minimum:"1000" maximum:"60000" doc:"End after this much audio."`
	SilenceLevel   float64 `json:"silence_level,omitempty" minimum:"0" maximum:"1" doc:"PCM quieter than this is silence; the loudest possible is 1. Where the background is louder, the level follows it."`
}

// SessionStarted is the answer to SessionStart.
type SessionStarted struct {
	SessionID    string              `json:"session_id"`
	ResumeToken  string              `json:"resume_token" doc:"The secret with which the session is resumed."`
	Langs        []string            `json:"langs" doc:"The languages in their canonical form."`
	SrcLang      string              `json:"src_lang"`
	Audio        SessionAudio        `json:"audio"`
	Segmentation SessionSegmentation `json:"segmentation"`
	Limits       SessionLimits       `json:"limits"`
	KeepaliveMS  int64               `json:"keepalive_ms,omitempty" doc:"How often at least a message comes over this connection. Absent: messages come when there are any."`
}

// SessionLimits are the limits of a session.
type SessionLimits struct {
	FrameBytes      int64 `json:"frame_bytes"`
	UtteranceMS     int64 `json:"utterance_ms"`
	BufferedMS      int64 `json:"buffered_ms" doc:"How far audio may run ahead of real time."`
	ResumeMS        int64 `json:"resume_ms" doc:"How long after a lost connection the session can be resumed at least."`
	IdleMS          int64 `json:"idle_ms" doc:"The session is closed after this time without any message of the client; a keepalive is one."`
	OpenUtterances  int   `json:"open_utterances" doc:"The maximum number of utterances that wait for their results."`
	FirstMessageMS  int64 `json:"first_message_ms"`
	PingIntervalMS  int64 `json:"ping_interval_ms"`
	ResultTimeoutMS int64 `json:"result_timeout_ms" doc:"The terminal message of an utterance is sent within this time of its commit, or of the last resume. Time without a connection does not count."`
	UtteranceRate   int   `json:"utterances_per_second" doc:"The maximum rate of utterances; short bursts may exceed it."`
}

// UtteranceStart begins an utterance. It is optional: the first audio begins one as well.
type UtteranceStart struct {
	UtteranceID string `json:"utterance_id,omitempty" maxLength:"128" pattern:"^[A-Za-z0-9._:-]+$"`
	SrcLang     string `json:"src_lang,omitempty" doc:"One of the session's languages; the other one is the target."`
	RequestID   string `json:"request_id,omitempty" maxLength:"120" pattern:"^[A-Za-z0-9._:-]+$" doc:"Within a session the same request_id never creates a second job. Absent: the scheduler generates one."`
	Traceparent string `json:"traceparent,omitempty" maxLength:"512" doc:"The W3C trace context of the client, in the format of the HTTP header of this name. The trace of the utterance links to it. An invalid one is ignored."`
}

// AudioChunk is audio of the open utterance, or its end. A binary frame carries the same audio without the other fields.
type AudioChunk struct {
	Seq         int64  `json:"seq,omitempty" doc:"The number of the audio frame in the session, from 1, binary frames included."`
	UtteranceID string `json:"utterance_id,omitempty" maxLength:"128" pattern:"^[A-Za-z0-9._:-]+$"`
	SrcLang     string `json:"src_lang,omitempty" doc:"As in utterance_start, if this frame begins an utterance."`
	RequestID   string `json:"request_id,omitempty" maxLength:"120" pattern:"^[A-Za-z0-9._:-]+$"`
	Data        []byte `json:"data,omitempty" doc:"Base64."`
	IsFinal     bool   `json:"is_final,omitempty" doc:"The utterance ends here."`
	Traceparent string `json:"traceparent,omitempty" maxLength:"512" doc:"As in utterance_start, if this frame begins an utterance."`
}

// AudioAck acknowledges all audio frames up to seq.
type AudioAck struct {
	Seq int64 `json:"seq" doc:"The last frame that has arrived. A client keeps acknowledged audio until the terminal message of its utterance."`
}

// AudioGone reports that the client no longer has the audio of an utterance that the scheduler asked for. The utterance
// ends with AUDIO_LOST and its frames count as sent: an audio_ack names the frame after which to continue.
type AudioGone struct {
	UtteranceIndex int64 `json:"utterance_index"`
}

// SessionResultAck acknowledges every durable message up to seq: the scheduler need not keep them.
type SessionResultAck struct {
	Seq int64 `json:"seq"`
}

// UtteranceCommitted reports that an utterance has ended and became a job.
type UtteranceCommitted struct {
	JobID          string `json:"job_id"`
	RequestID      string `json:"request_id"`
	UtteranceID    string `json:"utterance_id,omitempty"`
	UtteranceIndex int64  `json:"utterance_index" doc:"The number of the utterance in the session, from 0. Results are sent in this order."`
	SrcLang        string `json:"src_lang"`
	TgtLang        string `json:"tgt_lang"`
	Reason         string `json:"reason" enum:"manual,pause,silence,max_duration,end"`
	FirstSeq       int64  `json:"first_seq" doc:"Its first audio frame."`
	LastSeq        int64  `json:"last_seq" doc:"Its last audio frame."`
	DurationMS     int64  `json:"duration_ms"`
	Continues      *int64 `json:"continues,omitempty" doc:"The index of the utterance that this one continues, because a pause or the maximum length had ended that one."`
}

// SessionWaiting reports that an utterance waits for a node with a free slot. It is sent once for an utterance that has waited for a
// moment, and at most once a second.
type SessionWaiting struct {
	JobID          string `json:"job_id"`
	UtteranceIndex int64  `json:"utterance_index"`
	EstimateMS     *int64 `json:"estimate_ms,omitempty" doc:"How much longer it will probably wait. Absent: that is not known."`
}

// SessionPartial is a partial result of an utterance. It replaces earlier ones; a partial of a higher attempt voids those
// of lower attempts.
type SessionPartial struct {
	JobID          string `json:"job_id"`
	AttemptID      int    `json:"attempt_id"`
	UtteranceIndex int64  `json:"utterance_index"`
	Rev            int64  `json:"rev"`
	Stage          string `json:"stage,omitempty"`
	TextSrc        string `json:"text_src,omitempty"`
	TextTgt        string `json:"text_tgt,omitempty"`
}

// SessionResult is the result of an utterance.
type SessionResult struct {
	Seq            int64           `json:"seq" doc:"The position among the durable messages of the session."`
	JobID          string          `json:"job_id"`
	RequestID      string          `json:"request_id"`
	UtteranceID    string          `json:"utterance_id,omitempty"`
	UtteranceIndex int64           `json:"utterance_index"`
	Continues      *int64          `json:"continues,omitempty" doc:"As in utterance_committed."`
	FirstSeq       int64           `json:"first_seq" doc:"The utterance's first audio frame."`
	LastSeq        int64           `json:"last_seq" doc:"The utterance's last audio frame. It and those before it are not needed any more."`
	AttemptID      int             `json:"attempt_id"`
	SrcLang        string          `json:"src_lang"`
	TgtLang        string          `json:"tgt_lang"`
	TextSrc        string          `json:"text_src,omitempty"`
	TextTgt        string          `json:"text_tgt,omitempty"`
	Result         json.RawMessage `json:"result,omitempty" doc:"The node's result, with tts and tts_audio of its job_result if its speech comes in frames."`
	Latency        SessionLatency  `json:"latency"`
	Usage          SessionUsage    `json:"usage"`
	TTS            string          `json:"tts,omitempty" enum:"follows,none,lost" doc:"Whether speech follows in binary frames."`
	TTSAudio       *AudioFormat    `json:"tts_audio,omitempty" doc:"The format of the speech that follows."`
}

// SessionLatency is the latency of an utterance by phase, in milliseconds.
type SessionLatency struct {
	TotalMS    int64 `json:"total_ms" doc:"From the end of the utterance to its result: the sum of wait, dispatch and node."`
	WaitMS     int64 `json:"wait_ms" doc:"Until a node with a free slot was found."`
	DispatchMS int64 `json:"dispatch_ms" doc:"From then until the node that produced the result had the job, including retries."`
	NodeMS     int64 `json:"node_ms" doc:"Time on the node."`
	// SegmentationMS comes before the others in time and is not part of their sum.
	SegmentationMS int64            `json:"segmentation_ms" doc:"Before the end of the utterance: since the last audio that contained speech; 0 if the client ended the utterance."`
	StagesMS       map[string]int64 `json:"stages_ms,omitempty" doc:"On the node, by stage, as the node reports it."`
}

// SessionUsage is what an utterance is charged with, once, whatever the number of attempts.
type SessionUsage struct {
	AudioMS int64 `json:"audio_ms"`
}

// SessionUpdate changes the settings of a session: segmentation at once, the others from the next utterance on. An absent field is
// unchanged.
type SessionUpdate struct {
	SrcLang      string               `json:"src_lang,omitempty"`
	Segmentation *SessionSegmentation `json:"segmentation,omitempty"`
	Partials     *bool                `json:"partials,omitempty"`
	TTS          *bool                `json:"tts,omitempty"`
	Options      *DispatchOptions     `json:"options,omitempty"`
	Token        string               `json:"token,omitempty" doc:"Another session token for the same session, minted with the same key. It replaces the one with which the connection was made."`
}

// SessionCancel cancels an utterance: the named one, or the open one if none is named.
type SessionCancel struct {
	UtteranceID string `json:"utterance_id,omitempty" doc:"All parts of this utterance."`
	JobID       string `json:"job_id,omitempty" doc:"The utterance of this job. Without either field: the open utterance."`
}

// SessionResume resumes a session whose connection was lost.
type SessionResume struct {
	SessionID   string `json:"session_id"`
	ResumeToken string `json:"resume_token"`
	LastSeq     int64  `json:"last_seq" doc:"The last durable message that was received; all later ones are resent."`
	KeepaliveMS int64  `json:"keepalive_ms,omitempty" minimum:"1500" maximum:"60000" doc:"As in session_start: it holds for one connection."`
}

// SessionResumed is the answer to SessionResume.
type SessionResumed struct {
	SessionID     string `json:"session_id"`
	Recovered     bool   `json:"recovered" doc:"Every durable message after last_seq follows. False: some are lost."`
	NextAudioSeq  int64  `json:"next_audio_seq" doc:"The first audio frame that was not received, or is needed again."`
	LastSeq       int64  `json:"last_seq" doc:"The last durable message of the session."`
	OpenUtterance string `json:"open_utterance,omitempty" doc:"The open utterance, if any."`
	// AudioNeeded lists the utterances for which frames from next_audio_seq on are needed.
	AudioNeeded []AudioSpan `json:"audio_needed,omitempty" doc:"The utterances whose audio is needed again, in order. The client resends it, or sends audio_gone for each utterance whose audio it no longer has."`
	// Speech lists the jobs whose speech still comes, of results up to the last_seq of the resume.
	Speech      []string `json:"speech,omitempty" doc:"The jobs of results that the client has whose speech still comes, from chunk 0. All other speech of such results is over, complete or not."`
	KeepaliveMS int64    `json:"keepalive_ms,omitempty" doc:"As in session_started."`
}

// AudioSpan is the range of audio frames of a committed utterance.
type AudioSpan struct {
	UtteranceIndex int64 `json:"utterance_index"`
	FirstSeq       int64 `json:"first_seq"`
	LastSeq        int64 `json:"last_seq"`
}

// SessionEnd ends a session: an open utterance is committed, pending results are sent, and then session_ended.
type SessionEnd struct{}

// SessionEnded is the last message of a session.
type SessionEnded struct {
	SessionID  string `json:"session_id"`
	Utterances int64  `json:"utterances"`
	Results    int64  `json:"results"`
	Errors     int64  `json:"errors"`
	AudioMS    int64  `json:"audio_ms" doc:"Audio of the utterances that had a result."`
}

// Type implements Frame.
func (SessionStart) Type() FrameType { return "session_start" }

// Type implements Frame.
func (SessionStarted) Type() FrameType { return "session_started" }

// Type implements Frame.
func (UtteranceStart) Type() FrameType { return "utterance_start" }

// Type implements Frame.
func (AudioChunk) Type() FrameType { return "audio_chunk" }

// Type implements Frame.
func (AudioAck) Type() FrameType { return "audio_ack" }

// Type implements Frame.
func (AudioGone) Type() FrameType { return "audio_gone" }

// Type implements Frame.
func (SessionResultAck) Type() FrameType { return "result_ack" }

// Type implements Frame.
func (UtteranceCommitted) Type() FrameType { return "utterance_committed" }

// Type implements Frame.
func (SessionPartial) Type() FrameType { return "partial" }

// Type implements Frame.
func (SessionWaiting) Type() FrameType { return "waiting" }

// Type implements Frame.
func (SessionResult) Type() FrameType { return "result" }

// Type implements Frame.
func (SessionUpdate) Type() FrameType { return "session_update" }

// Type implements Frame.
func (SessionCancel) Type() FrameType { return "cancel" }

// Type implements Frame.
func (SessionResume) Type() FrameType { return "session_resume" }

// Type implements Frame.
func (SessionResumed) Type() FrameType { return "session_resumed" }

// Type implements Frame.
func (SessionEnd) Type() FrameType { return "session_end" }

// Type implements Frame.
func (SessionEnded) Type() FrameType { return "session_ended" }
