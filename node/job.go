package node

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// Handler executes one job. It is called in a goroutine of its own, at most Config.Slots times at once. Its context ends
// when the job is cancelled, at the deadline of the attempt, and when the node stops; the handler should return soon then.
//
// A result is sent to the scheduler. An error fails the attempt: with its reason for Fail, ErrBusy, NotAvailableError and
// errors that wrap them, otherwise as NODE_FAILED. The text of an error is logged, so it must not contain what people said.
// A panic fails the job only.
type Handler func(ctx context.Context, job *Job) (Result, error)

// Job is one attempt of one job: an utterance to translate.
type Job struct {
	ID       string
	Attempt  int
	Session  string
	Src, Tgt string // languages, as BCP-47 tags
	Options  wire.DispatchOptions
	Format   wire.AudioFormat // of the audio, with the defaults filled in
	Duration time.Duration    // of the audio; 0 if it is not known
	AudioRef string           // where the audio of a job dispatched over HTTP is, in terms that the node must know; see Audio
	Deadline time.Time        // of the attempt, on this machine's clock; zero if there is none
	Partials bool             // the client wants partial results
	Probe    bool             // a synthetic utterance, with a moment of silence, by which an operator tests this node
	// Traceparent is the W3C trace context of the attempt, for handlers that continue the trace in another process; empty if the scheduler
	// does not trace. The context of the handler has it, too.
	Traceparent string

	attempt *attempt
	audio   audioBuffer
}

// Partial is a partial result. It replaces the previous one.
type Partial struct {
	Stage            string // asr, semantic, nmt or tts
	TextSrc, TextTgt string
}

// Result is the result of a job.
type Result struct {
	TextSrc, TextTgt string
	// Extra are further fields of the result.
	Extra map[string]any
	// StagesMS is the duration of each stage: {"asr": 120, "nmt": 45}.
	StagesMS map[string]int64
	// Speech is the translated speech, if any: samples, a WAV file or, for opus, an Ogg stream, as Job.Audio returns it.
	// Package wire/oggopus makes one from packets.
	Speech []byte
	// SpeechFormat is the format of Speech: pcm_s16le, 16000, 1 unless given. An Ogg stream has its own rate and channels.
	SpeechFormat wire.AudioFormat
}

func newJob(a *wire.JobAssign, received time.Time) *Job {
	j := &Job{
		ID: a.JobID, Attempt: a.AttemptID, Session: a.SessionID, Src: a.SrcLang, Tgt: a.TgtLang, Options: a.Options, Partials: a.Partials,
		Probe: a.Probe,
	}
	if _, valid := wire.ParseTraceparent(a.Traceparent); valid {
		j.Traceparent = a.Traceparent
	}
	if a.TimeoutMS > 0 { // not deadline_ms, because the clocks may differ
		j.Deadline = received.Add(milliseconds(a.TimeoutMS))
	}
	if a.Audio != nil {
		j.AudioRef, j.Duration = a.Audio.Ref, milliseconds(a.Audio.DurationMS)
		j.Format = a.Audio.OrDefault()
		j.audio.isPackets = j.Format.Encoding == wire.EncodingOpus && a.Audio.URL == ""
	}
	j.audio.init(received)
	return j
}

// Partial sends a partial result. It never waits. The partial result is omitted if the client does not want any, if the
// connection is lost or congested, and if the job has ended.
func (j *Job) Partial(p Partial) {
	if j.Partials {
		j.attempt.node.sendPartial(j.attempt, p)
	}
}
