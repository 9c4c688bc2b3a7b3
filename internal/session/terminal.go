package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/internal/convert"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// terminalMessage is the durable message that ends an utterance, a result or an error, with what the scheduler has to know of
// it. The outbox holds it as two lines: its fields as JSON, and the message as it is sent, which the scheduler does not have
// to parse.
type terminalMessage struct {
	Result  bool `json:"result,omitempty"` // false: it is an error
	Attempt int  `json:"attempt,omitempty"`
	// Node is the node of the attempt, if the utterance was first given to another.
	Node    core.NodeID `json:"node,omitempty"`
	AudioMS int64       `json:"audio_ms,omitempty"`
	Speech  string      `json:"speech,omitempty"` // whether speech follows the result; empty: none was requested
	// At is the instance that received the result, if speech follows it. Speech that has not begun to arrive when its result is sent
	// can only come there, over the connection of the node: it reaches no session of another instance.
	At core.InstanceID `json:"at,omitempty"`
	// Span is the span under which the trace of the utterance continues when the message is sent; empty: it has none.
	Span string `json:"span,omitempty"`
	// Audio is the format of the speech that follows, as its node declared it; nil if it did not.
	Audio *wire.AudioFormat `json:"audio,omitempty"`
	// Lag has the parts of the lag of a result that are known when it is stored; nil: they are not known.
	Lag *lag `json:"lag,omitempty"`

	body   []byte              // the message without its speech fields (tts, tts_audio)
	result *wire.SessionResult // the same before it was encoded; nil: it is decoded if it is needed
}

// Values of a result's field tts.
const (
	speechFollows = "follows"
	speechNone    = "none"
	speechLost    = "lost"
)

// encode returns the message as the outbox holds it.
func (m *terminalMessage) encode() ([]byte, error) {
	fields, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	return bytes.Join([][]byte{fields, m.body}, []byte("\n")), nil
}

// decodeTerminalMessage reads a message as the outbox holds it.
func decodeTerminalMessage(stored []byte) (*terminalMessage, error) {
	fields, body, _ := bytes.Cut(stored, []byte("\n"))
	m := &terminalMessage{body: body}
	if err := json.Unmarshal(fields, m); err != nil {
		return nil, fmt.Errorf("a message of an outbox cannot be read: %w", err)
	}
	if len(body) == 0 {
		return nil, errors.New("a message of an outbox is empty")
	}
	return m, nil
}

// text returns the message as it is sent, with its speech fields: whether speech follows, and in which format, is known only
// then.
func (m *terminalMessage) text(speech string, format *wire.AudioFormat) []byte {
	if !m.Result || speech == "" {
		return m.body
	}
	var r wire.SessionResult
	if m.result != nil {
		r = *m.result
	} else if err := json.Unmarshal(m.body, &r); err != nil {
		return m.body // cannot happen: it was encoded from a wire.SessionResult
	}
	r.TTS, r.TTSAudio = speech, format
	text, err := wire.EncodeFrame(r)
	if err != nil {
		return m.body
	}
	return text
}

// newTerminalMessage makes the terminal message of a job that has ended. Its position among the session's durable messages is
// its turn.
func newTerminalMessage(job *core.Job) (*terminalMessage, error) {
	if job.State != core.StateDone {
		return failureMessage(&job.Spec, job.ID, &wire.Error{
			Code: codeOf(job.Reason), Detail: "this utterance has no result: " + string(job.Reason),
		}, job.Reason)
	}
	var result convert.NodeResult
	_ = json.Unmarshal(job.Result, &result) // a result of another form is passed on all the same
	u, frames := &job.Utterance, audio.FramesOf(job.AudioRef)
	parts := lagOf(job)
	r := wire.SessionResult{
		Seq: u.Turn, JobID: string(job.ID), RequestID: string(job.Request), UtteranceID: u.ID,
		UtteranceIndex: u.Turn - 1, Continues: continuesIndex(&job.Spec), FirstSeq: frames.First, LastSeq: frames.Last,
		AttemptID: job.Attempt,
		SrcLang:   string(job.Direction.Src), TgtLang: string(job.Direction.Tgt),
		TextSrc: result.TextSrc, TextTgt: result.TextTgt, Result: job.Result,
		Latency: wire.SessionLatency{
			TotalMS: parts.WaitMS + parts.DispatchMS + parts.NodeMS, WaitMS: parts.WaitMS, DispatchMS: parts.DispatchMS,
			NodeMS:         parts.NodeMS,
			SegmentationMS: parts.SegmentationMS, StagesMS: result.Latency,
		},
		Usage: wire.SessionUsage{AudioMS: u.AudioMS},
	}
	body, err := wire.EncodeFrame(r)
	if err != nil {
		return nil, err
	}
	m := &terminalMessage{Result: true, Attempt: job.Attempt, AudioMS: u.AudioMS, Lag: &parts, body: body}
	if job.Attempt > 1 {
		m.Node = job.Node
	}
	if job.Options.RequireTTS {
		m.Speech, m.result = speechNone, &r
		if result.TTS {
			m.Speech, m.Audio = speechFollows, result.TTSAudio
		}
	}
	return m, nil
}

// failureMessage makes the terminal message of an utterance without a result, whether or not it had become a job.
func failureMessage(spec *core.Spec, job core.JobID, e *wire.Error, reason core.Reason) (*terminalMessage, error) {
	index, frames := spec.Utterance.Turn-1, audio.FramesOf(spec.AudioRef)
	f := wire.ErrorFrame{
		Error: *e, Seq: spec.Utterance.Turn, RequestID: string(spec.Request), UtteranceID: spec.Utterance.ID,
		UtteranceIndex: &index, Continues: continuesIndex(spec), FirstSeq: frames.First, LastSeq: frames.Last, Reason: string(reason),
	}
	f.JobID = string(job)
	body, err := wire.EncodeFrame(f)
	if err != nil {
		return nil, err
	}
	return &terminalMessage{body: body}, nil
}

// codeOf is the error code with which a reason is reported.
func codeOf(r core.Reason) wire.Code {
	switch r {
	case core.ReasonDeadline:
		return wire.DeadlineExceeded
	case core.ReasonAllFull:
		return wire.AllCandidatesFullOrFailed
	case core.ReasonDependencyDown:
		return wire.SchedulerDependencyDown
	}
	return wire.Code(r)
}
