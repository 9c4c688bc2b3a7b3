package wire

import "encoding/json"

// The messages of /ws/session. The first a client sends is SessionStart or SessionResume.

// MintRequest is the body of POST /v1/sessions.
type MintRequest struct {
	SessionID  string `json:"session_id,omitempty" maxLength:"128" pattern:"^[A-Za-z0-9._:-]+$" doc:"The session the token is for; one is made if it is absent."`
	TenantID   string `json:"tenant_id,omitempty" doc:"Whose session it is."`
	TTLSeconds int64  `json:"ttl_seconds,omitempty" minimum:"1" maximum:"86400" doc:"How long the token can be used to connect, 3600 unless given. A session that runs goes on."`
}

// MintResponse is its answer.
type MintResponse struct {
	SessionID string `json:"session_id"`
	Token     string `json:"token"`
	ExpiresMS int64  `json:"expires_ms" doc:"When it is of no use any more, Unix milliseconds."`
}

// SessionStart begins a conversation between two languages. Each utterance is in one of them.
type SessionStart struct {
	SessionID    string          `json:"session_id,omitempty" maxLength:"128" pattern:"^[A-Za-z0-9._:-]+$" doc:"One is made if it is absent. A session token names it."`
	ResumeToken  string          `json:"resume_token,omitempty" maxLength:"128" doc:"A secret of the client's own making, of 16 characters at least, in place of one that the scheduler makes. Whoever lost the answer says the same again, with the name and the secret, and gets the same session."`
	Langs        []string        `json:"langs" minItems:"2" maxItems:"2" doc:"The two languages, as BCP-47 tags."`
	SrcLang      string          `json:"src_lang,omitempty" doc:"The language of utterances that do not say theirs. The first of langs unless given."`
	TgtLang      string          `json:"tgt_lang,omitempty" doc:"The other one, if it is said at all."`
	Audio        SessionAudio    `json:"audio,omitzero"`
	Segmentation Segmentation    `json:"segmentation,omitzero"`
	Partials     bool            `json:"partials,omitempty" doc:"Send partial results."`
	TTS          bool            `json:"tts,omitempty" doc:"Speak the results."`
	Options      DispatchOptions `json:"options,omitzero"`
}

// The values of SessionAudio.Framing.
const (
	FramingRaw      = "raw"
	FramingNumbered = "numbered"
)

// SessionAudio is the format of a session's audio and of the binary frames that carry it.
type SessionAudio struct {
	Encoding   string `json:"encoding,omitempty" enum:"pcm_s16le,opus,wav" doc:"pcm_s16le unless given."`
	SampleRate int    `json:"sample_rate,omitempty" minimum:"8000" maximum:"48000" doc:"16000 unless given."`
	Channels   int    `json:"channels,omitempty" minimum:"1" maximum:"2" doc:"1 unless given."`
	Framing    string `json:"framing,omitempty" enum:"raw,numbered" doc:"What a binary frame holds. raw, unless given: audio, which counts as the next frame. numbered: the frame's sequence number in 8 bytes, big-endian, then audio."`
}

// Format is the format without the framing.
func (a *SessionAudio) Format() AudioFormat {
	return AudioFormat{Encoding: a.Encoding, SampleRate: a.SampleRate, Channels: a.Channels}
}

// The values of Segmentation.Mode.
const (
	SegmentAuto   = "auto"
	SegmentManual = "manual"
)

// Segmentation is where an utterance ends, unless the client ends it. Zero is what the scheduler is configured with.
type Segmentation struct {
	Mode           string  `json:"mode,omitempty" enum:"auto,manual" doc:"auto, unless given: by pause, silence and length. manual: only is_final, session_end and max_utterance_ms end an utterance, for clients with their own voice detection."`
	PauseMS        int64   `json:"pause_ms,omitempty" minimum:"100" maximum:"10000" doc:"After so long without audio, or of silence."`
	MaxUtteranceMS int64   `json:"max_utterance_ms,omitempty" minimum:"1000" maximum:"60000" doc:"After so much audio."`
	SilenceLevel   float64 `json:"silence_level,omitempty" minimum:"0" maximum:"1" doc:"PCM quieter than this is silence; the loudest possible is 1. Where the background is louder, the level follows it."`
}

// SessionStarted answers it.
type SessionStarted struct {
	SessionID    string       `json:"session_id"`
	ResumeToken  string       `json:"resume_token" doc:"With it a lost connection is resumed."`
	Langs        []string     `json:"langs" doc:"As they are understood."`
	SrcLang      string       `json:"src_lang"`
	Audio        SessionAudio `json:"audio"`
	Segmentation Segmentation `json:"segmentation"`
	Limits       Limits       `json:"limits"`
}

// Limits is what a session must keep to.
type Limits struct {
	FrameBytes      int64 `json:"frame_bytes"`
	UtteranceMS     int64 `json:"utterance_ms"`
	BufferedMS      int64 `json:"buffered_ms" doc:"How far audio may run ahead of real time."`
	ResumeMS        int64 `json:"resume_ms" doc:"How long after a cut the session can be resumed."`
	IdleMS          int64 `json:"idle_ms" doc:"After so long without any message the session is closed; a keepalive is one."`
	OpenUtterances  int   `json:"open_utterances" doc:"How many utterances may wait for their results at once."`
	FirstMessageMS  int64 `json:"first_message_ms"`
	PingIntervalMS  int64 `json:"ping_interval_ms"`
	ResultTimeoutMS int64 `json:"result_timeout_ms" doc:"The terminal message of an utterance comes within this time of its commit, or of the last resume. It counts while the session is connected."`
	UtteranceRate   int   `json:"utterances_per_second" doc:"How many utterances a session may begin each second; a few more at once are fine."`
}

// UtteranceStart begins an utterance; without it, the first audio does.
type UtteranceStart struct {
	UtteranceID string `json:"utterance_id,omitempty" maxLength:"128" pattern:"^[A-Za-z0-9._:-]+$"`
	SrcLang     string `json:"src_lang,omitempty" doc:"One of the session's languages; the other is the target."`
	RequestID   string `json:"request_id,omitempty" maxLength:"120" pattern:"^[A-Za-z0-9._:-]+$" doc:"The same one never makes a second job. One is made if it is absent."`
}

// AudioChunk is audio of the open utterance, or the end of it. A binary frame is the same without the rest.
type AudioChunk struct {
	Seq         int64  `json:"seq,omitempty" doc:"Which audio frame this is, counted from 1 over the session, binary frames included."`
	UtteranceID string `json:"utterance_id,omitempty" maxLength:"128" pattern:"^[A-Za-z0-9._:-]+$"`
	SrcLang     string `json:"src_lang,omitempty" doc:"As in utterance_start, if this begins one."`
	RequestID   string `json:"request_id,omitempty" maxLength:"120" pattern:"^[A-Za-z0-9._:-]+$"`
	Data        []byte `json:"data,omitempty" doc:"Base64."`
	IsFinal     bool   `json:"is_final,omitempty" doc:"The utterance ends here."`
}

// AudioAck says up to which frame audio has arrived.
type AudioAck struct {
	Seq int64 `json:"seq"`
}

// AudioGone says that the client does not have the audio of an utterance any more, which the scheduler asked for again.
// The utterance ends with AUDIO_LOST, and its frames count as sent: an audio_ack names the frame after which to go on.
type AudioGone struct {
	UtteranceIndex int64 `json:"utterance_index"`
}

// ResultAck says that the client has every durable message up to seq: the scheduler need not keep them.
type ResultAck struct {
	Seq int64 `json:"seq"`
}

// UtteranceCommitted says that an utterance has ended and became a job.
type UtteranceCommitted struct {
	JobID          string `json:"job_id"`
	RequestID      string `json:"request_id"`
	UtteranceID    string `json:"utterance_id,omitempty"`
	UtteranceIndex int64  `json:"utterance_index" doc:"Counts the session's utterances from 0; results come in this order."`
	SrcLang        string `json:"src_lang"`
	TgtLang        string `json:"tgt_lang"`
	Reason         string `json:"reason" enum:"manual,pause,silence,max_duration,end"`
	FirstSeq       int64  `json:"first_seq" doc:"Its first audio frame."`
	LastSeq        int64  `json:"last_seq" doc:"Its last audio frame."`
	DurationMS     int64  `json:"duration_ms"`
	Continues      *int64 `json:"continues,omitempty" doc:"The index of the utterance whose further audio this is: that one was ended by a pause or its length."`
}

// Partial is what there is so far of an utterance. It replaces any before it; one of a higher attempt voids those of
// a lower.
type Partial struct {
	JobID          string `json:"job_id"`
	AttemptID      int    `json:"attempt_id"`
	UtteranceIndex int64  `json:"utterance_index"`
	Rev            int64  `json:"rev"`
	Stage          string `json:"stage,omitempty"`
	TextSrc        string `json:"text_src,omitempty"`
	TextTgt        string `json:"text_tgt,omitempty"`
}

// Result is how an utterance ended well.
type Result struct {
	Seq            int64           `json:"seq" doc:"Position in the session's durable messages."`
	JobID          string          `json:"job_id"`
	RequestID      string          `json:"request_id"`
	UtteranceID    string          `json:"utterance_id,omitempty"`
	UtteranceIndex int64           `json:"utterance_index"`
	Continues      *int64          `json:"continues,omitempty" doc:"As in utterance_committed."`
	AttemptID      int             `json:"attempt_id"`
	SrcLang        string          `json:"src_lang"`
	TgtLang        string          `json:"tgt_lang"`
	TextSrc        string          `json:"text_src,omitempty"`
	TextTgt        string          `json:"text_tgt,omitempty"`
	Result         json.RawMessage `json:"result,omitempty" doc:"Everything the node said, as it said it."`
	Latency        Latency         `json:"latency"`
	Usage          Usage           `json:"usage"`
	TTS            string          `json:"tts,omitempty" enum:"follows,none,lost" doc:"Whether the spoken result follows in binary frames."`
	TTSAudio       *AudioFormat    `json:"tts_audio,omitempty" doc:"The format of a spoken result that follows."`
}

// Latency is where the time of an utterance went, in milliseconds.
type Latency struct {
	TotalMS    int64            `json:"total_ms" doc:"From the end of the utterance to its result: the sum of wait, dispatch and node."`
	WaitMS     int64            `json:"wait_ms" doc:"Until a node with room was found."`
	DispatchMS int64            `json:"dispatch_ms" doc:"From then until the node that made the result had the job; retries are in it."`
	NodeMS     int64            `json:"node_ms" doc:"On the node."`
	StagesMS   map[string]int64 `json:"stages_ms,omitempty" doc:"On the node, by stage, as the node says."`
}

// Usage is what an utterance is charged with, once, however often it was tried.
type Usage struct {
	AudioMS int64 `json:"audio_ms"`
}

// SessionUpdate changes a session from the next utterance on. An absent field is unchanged.
type SessionUpdate struct {
	SrcLang      string           `json:"src_lang,omitempty"`
	Segmentation *Segmentation    `json:"segmentation,omitempty"`
	Partials     *bool            `json:"partials,omitempty"`
	TTS          *bool            `json:"tts,omitempty"`
	Options      *DispatchOptions `json:"options,omitempty"`
}

// Cancel gives up an utterance: the open one, or one whose result has not come.
type Cancel struct {
	UtteranceID string `json:"utterance_id,omitempty"`
	JobID       string `json:"job_id,omitempty"`
}

// Keepalive says that the client is there.
type Keepalive struct{}

// SessionResume goes on with a session whose connection was lost.
type SessionResume struct {
	SessionID   string `json:"session_id"`
	ResumeToken string `json:"resume_token"`
	LastSeq     int64  `json:"last_seq" doc:"The last durable message that arrived; everything after it is sent again."`
}

// SessionResumed answers it.
type SessionResumed struct {
	SessionID     string `json:"session_id"`
	Recovered     bool   `json:"recovered" doc:"Everything since last_seq follows. False: some of it is gone."`
	NextAudioSeq  int64  `json:"next_audio_seq" doc:"The first audio frame that has not arrived, or is needed again."`
	LastSeq       int64  `json:"last_seq" doc:"The last durable message there is."`
	OpenUtterance string `json:"open_utterance,omitempty" doc:"The utterance that is open, if one is."`
	// AudioNeeded lists what the frames from next_audio_seq on are needed for.
	AudioNeeded []AudioSpan `json:"audio_needed,omitempty" doc:"The utterances whose audio is needed again, in their order. Send it again, or send audio_gone for each that the client does not have any more."`
}

// AudioSpan is the audio frames of a committed utterance.
type AudioSpan struct {
	UtteranceIndex int64 `json:"utterance_index"`
	FirstSeq       int64 `json:"first_seq"`
	LastSeq        int64 `json:"last_seq"`
}

// SessionEnd ends a session: what is open is committed, results still come, and then session_ended.
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
func (ResultAck) Type() FrameType { return "result_ack" }

// Type implements Frame.
func (UtteranceCommitted) Type() FrameType { return "utterance_committed" }

// Type implements Frame.
func (Partial) Type() FrameType { return "partial" }

// Type implements Frame.
func (Result) Type() FrameType { return "result" }

// Type implements Frame.
func (SessionUpdate) Type() FrameType { return "session_update" }

// Type implements Frame.
func (Cancel) Type() FrameType { return "cancel" }

// Type implements Frame.
func (Keepalive) Type() FrameType { return "keepalive" }

// Type implements Frame.
func (SessionResume) Type() FrameType { return "session_resume" }

// Type implements Frame.
func (SessionResumed) Type() FrameType { return "session_resumed" }

// Type implements Frame.
func (SessionEnd) Type() FrameType { return "session_end" }

// Type implements Frame.
func (SessionEnded) Type() FrameType { return "session_ended" }
