package node

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// Handler does one job. It is called in a goroutine of its own, at most Config.Slots times at once. Its context ends when
// the job is cancelled, at the attempt's deadline, and when the node must go; it should return soon then. What it returns
// beside Fail, ErrBusy and NotAvailable as an error is written to the node's log, so what people said has no place in it.
// A handler that panics fails its job only.
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
	AudioRef string           // where the audio is, if whoever sent the job over HTTP said so; see Audio
	Deadline time.Time        // when the attempt is over, on this machine's clock; zero if never
	Partials bool             // somebody reads partial results

	task  *task
	sound sound
}

// Partial is what there is so far. Each replaces the one before it.
type Partial struct {
	Stage            string // asr, semantic, nmt or tts
	TextSrc, TextTgt string
}

// Result is what came out.
type Result struct {
	TextSrc, TextTgt string
	// Extra are further fields of the result.
	Extra map[string]any
	// StagesMS is how long each stage took: {"asr": 120, "nmt": 45}.
	StagesMS map[string]int64
	// Speech is the spoken result, if there is one: samples, a WAV file or, of opus, an Ogg stream, as Job.Audio has it. The
	// package wire/oggopus makes one of packets.
	Speech []byte
	// SpeechFormat is what Speech is: pcm_s16le, 16000, 1 where it does not say. An Ogg stream says its rate and channels itself.
	SpeechFormat wire.AudioFormat
}

func newJob(a *wire.JobAssign, received time.Time) *Job {
	j := &Job{
		ID: a.JobID, Attempt: a.AttemptID, Session: a.SessionID, Src: a.SrcLang, Tgt: a.TgtLang, Options: a.Options, Partials: a.Partials,
	}
	if a.TimeoutMS > 0 { // not deadline_ms: the two clocks may differ
		j.Deadline = received.Add(milliseconds(a.TimeoutMS))
	}
	if a.Audio != nil {
		j.AudioRef, j.Duration = a.Audio.Ref, milliseconds(a.Audio.DurationMS)
		j.Format = a.Audio.OrDefault()
		j.sound.packets = j.Format.Encoding == wire.EncodingOpus && a.Audio.URL == ""
	}
	j.sound.begin(received)
	return j
}

// Partial shows what there is so far, to whoever looks. It never waits, and is left out when nobody looks, when the
// connection is lost or busy, and when the job is over.
func (j *Job) Partial(p Partial) {
	if j.Partials {
		j.task.node.partial(j.task, p)
	}
}
