package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lingua-scheduler/lingua/internal/convert"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// envelope is a terminal message with what the scheduler must know of it: the message itself holds what the node
// wrote, in which nothing is looked for. The outbox holds its fields as a line of JSON, then the message.
type envelope struct {
	Result  bool   `json:"result,omitempty"` // else it is an error
	Attempt int    `json:"attempt,omitempty"`
	AudioMS int64  `json:"audio_ms,omitempty"`
	Speech  string `json:"speech,omitempty"` // what is said of the spoken result; empty: none was asked for
	// Audio is the format of speech that follows, as its node declared it; nil if it did not.
	Audio   *wire.AudioFormat `json:"audio,omitempty"`
	message []byte
}

// What a result says of its speech.
const (
	speechFollows = "follows"
	speechNone    = "none"
	speechLost    = "lost"
)

// encode is the envelope as the outbox holds it.
func (e *envelope) encode() ([]byte, error) {
	head, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	return append(append(head, '\n'), e.message...), nil
}

// openEnvelope reads what the outbox holds.
func openEnvelope(body []byte) (*envelope, error) {
	head, message, _ := bytes.Cut(body, []byte("\n"))
	e := &envelope{message: message}
	if err := json.Unmarshal(head, e); err != nil {
		return nil, fmt.Errorf("a message of an outbox cannot be read: %w", err)
	}
	if len(message) == 0 {
		return nil, errors.New("a message of an outbox is empty")
	}
	return e, nil
}

// text is the message as it is sent. What it says of its speech is known only then: whether it comes, and in which format.
func (e *envelope) text(speech string, audio wire.AudioFormat) []byte {
	if !e.Result || speech == "" {
		return e.message
	}
	more := struct {
		TTS      string            `json:"tts"`
		TTSAudio *wire.AudioFormat `json:"tts_audio,omitempty"`
	}{TTS: speech}
	if speech == speechFollows {
		more.TTSAudio = &audio
	}
	fields, err := json.Marshal(more)
	if err != nil {
		return e.message // strings and numbers of ours, which can be written
	}
	text := make([]byte, 0, len(e.message)+len(fields))
	text = append(text, e.message[:len(e.message)-1]...)
	return append(append(text, ','), fields[1:]...)
}

// seal writes the terminal message of a job. Its position among the session's durable messages is its turn.
func seal(job *core.Job) (*envelope, error) {
	if job.State != core.StateDone {
		return sealFailure(&job.Spec, job.ID, &wire.Error{
			Code: codeOf(job.Reason), Detail: "this utterance has no result: " + string(job.Reason),
		}, job.Reason)
	}
	var result convert.NodeResult
	_ = json.Unmarshal(job.Result, &result) // a result of another form is passed on all the same
	last, u := job.History[len(job.History)-1], &job.Utterance
	r := wire.SessionResult{
		Seq: u.Turn, JobID: string(job.ID), RequestID: string(job.Request), UtteranceID: u.ID,
		UtteranceIndex: u.Turn - 1, Continues: continuesIndex(&job.Spec), AttemptID: job.Attempt,
		SrcLang: string(job.Direction.Src), TgtLang: string(job.Direction.Tgt),
		TextSrc: result.TextSrc, TextTgt: result.TextTgt, Result: job.Result,
		Latency: wire.SessionLatency{
			TotalMS: u.WaitMS + job.Updated.Sub(job.Created).Milliseconds(), WaitMS: u.WaitMS,
			DispatchMS: last.Started.Sub(job.Created).Milliseconds(), NodeMS: job.Updated.Sub(last.Started).Milliseconds(),
			StagesMS: result.Latency,
		},
		Usage: wire.SessionUsage{AudioMS: u.AudioMS},
	}
	message, err := wire.EncodeFrame(r)
	if err != nil {
		return nil, err
	}
	e := &envelope{Result: true, Attempt: job.Attempt, AudioMS: u.AudioMS, message: message}
	if job.Options.RequireTTS {
		e.Speech = speechNone
		if result.TTS {
			e.Speech, e.Audio = speechFollows, result.TTSAudio
		}
	}
	return e, nil
}

// sealFailure writes the terminal message of an utterance without a result, whether or not it had become a job.
func sealFailure(spec *core.Spec, job core.JobID, e *wire.Error, reason core.Reason) (*envelope, error) {
	index := spec.Utterance.Turn - 1
	f := wire.ErrorFrame{
		Error: *e, Seq: spec.Utterance.Turn, RequestID: string(spec.Request), UtteranceID: spec.Utterance.ID,
		UtteranceIndex: &index, Continues: continuesIndex(spec), Reason: string(reason),
	}
	f.JobID = string(job)
	message, err := wire.EncodeFrame(f)
	if err != nil {
		return nil, err
	}
	return &envelope{message: message}, nil
}

// codeOf is the code under which a reason is told.
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
