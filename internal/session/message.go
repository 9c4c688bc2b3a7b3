package session

import (
	"encoding/json"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// spoken is what the scheduler understands of a node's result. The rest is passed on as it is.
type spoken struct {
	TextSrc string           `json:"text_src"`
	TextTgt string           `json:"text_tgt"`
	Latency map[string]int64 `json:"latency"`
	TTS     bool             `json:"tts"`
}

// message writes the terminal message of a job. Its position among the session's durable messages is its turn.
func message(job *core.Job) ([]byte, error) {
	if job.State != core.StateDone {
		return failure(&job.Spec, job.ID, &wire.Error{
			Code: codeOf(job.Reason), Detail: "this utterance has no result: " + string(job.Reason),
		}, job.Reason)
	}
	var said spoken
	_ = json.Unmarshal(job.Result, &said) // a result of another form is passed on all the same
	last := job.History[len(job.History)-1]
	r := wire.Result{
		Seq: job.Utterance.Turn, JobID: string(job.ID), RequestID: string(job.Request), UtteranceID: job.Utterance.ID,
		UtteranceIndex: job.Utterance.Turn - 1, AttemptID: job.Attempt,
		SrcLang: string(job.Direction.Src), TgtLang: string(job.Direction.Tgt),
		TextSrc: said.TextSrc, TextTgt: said.TextTgt, Result: job.Result,
		Latency: wire.Latency{
			TotalMS: job.Updated.Sub(job.Created).Milliseconds(), DispatchMS: last.Started.Sub(job.Created).Milliseconds(),
			NodeMS: job.Updated.Sub(last.Started).Milliseconds(), StagesMS: said.Latency,
		},
		Usage: wire.Usage{AudioMS: job.Utterance.AudioMS},
	}
	if job.Options.RequireTTS {
		r.TTS = "none"
		if said.TTS {
			r.TTS = "follows"
		}
	}
	return wire.EncodeFrame(r)
}

const (
	// certainlyFits is how large a result can be that fits into a message however it has to be written: its texts are in
	// it twice, and one byte of a text takes six at most.
	certainlyFits = wire.MaxFrame / 16
	// besides is what a message takes beside the result, at most: names and numbers.
	besides = 4 << 10
)

// Fits reports whether a node's result fits into the message that brings it to its session.
func Fits(result json.RawMessage) bool {
	if len(result) <= certainlyFits {
		return true
	}
	var said spoken
	_ = json.Unmarshal(result, &said) // as message does
	text, err := wire.EncodeFrame(wire.Result{TextSrc: said.TextSrc, TextTgt: said.TextTgt, Result: result})
	return err == nil && len(text)+besides <= wire.MaxFrame
}

// failure writes the terminal message of an utterance without a result, whether or not it had become a job.
func failure(spec *core.Spec, job core.JobID, e *wire.Error, reason core.Reason) ([]byte, error) {
	index := spec.Utterance.Turn - 1
	f := wire.ErrorFrame{
		Error: *e, Seq: spec.Utterance.Turn, RequestID: string(spec.Request), UtteranceID: spec.Utterance.ID,
		UtteranceIndex: &index, Reason: string(reason),
	}
	f.JobID = string(job)
	return wire.EncodeFrame(f)
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
