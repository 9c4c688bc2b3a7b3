package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"

	"github.com/lingua-scheduler/lingua/wire"
)

// outcome is how an attempt ended, as the scheduler is told.
type outcome struct {
	frames []wire.Frame
	speech *speech // follows in binary frames; nil: none does
}

func failed(key wire.ActiveJob, reason string) outcome {
	return outcome{frames: []wire.Frame{wire.JobFail{ActiveJob: key, Reason: reason}}}
}

// succeeded makes the outcome of a result, with the speech that follows it, if there is some. What could not be sent is an
// error: the scheduler would end the connection.
func succeeded(key wire.ActiveJob, r Result, spoken *speech, uploaded bool) (outcome, error) {
	body, err := r.encode(uploaded)
	if err != nil {
		return outcome{}, err
	}
	frame := wire.JobResult{ActiveJob: key, Result: body}
	o := outcome{speech: spoken}
	if spoken != nil {
		frame.TTS, frame.TTSAudio = true, &spoken.format
	}
	o.frames = []wire.Frame{frame}
	return o, sendable(frame)
}

// encode writes the object that is kept with the job. It says itself that there is speech if that does not follow it.
func (r Result) encode(uploaded bool) (json.RawMessage, error) {
	fields := map[string]any{}
	maps.Copy(fields, r.Extra)
	fields["text_src"], fields["text_tgt"] = r.TextSrc, r.TextTgt
	if uploaded {
		fields["tts"] = true
	}
	if len(r.StagesMS) > 0 {
		fields["latency"] = r.StagesMS
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(fields); err != nil {
		return nil, err
	}
	return bytes.ToValidUTF8(bytes.TrimSpace(buf.Bytes()), []byte("\ufffd")), nil
}

var errTooLarge = errors.New("it is larger than a message may be")

// sendable says why a frame would not be taken.
func sendable(f wire.Frame) error {
	text, err := wire.EncodeFrame(f)
	if err != nil {
		return err
	}
	if len(text) > wire.MaxFrame {
		return errTooLarge
	}
	err = wire.Decode(text, &struct{}{}) // finds what is nested too deep
	return err
}

// failureOf turns what a handler returned into what the scheduler is told.
func failureOf(ctx context.Context, key wire.ActiveJob, err error) outcome {
	var missing NotAvailable
	var pointed *NotAvailable
	if errors.As(err, &pointed) && pointed != nil {
		err = *pointed
	}
	var f *failure
	switch {
	case errors.As(err, &missing):
		// The first says what is missing, the second ends the attempt and is acknowledged: whichever arrives is enough.
		return outcome{frames: []wire.Frame{
			wire.ModelNotAvailable{
				ServiceID: missing.Service, Version: missing.Version, Reason: missing.Reason, JobID: key.JobID, AttemptID: key.AttemptID,
			},
			wire.JobFail{ActiveJob: key, Reason: reasonModel},
		}}
	case errors.As(err, &f) && f.reason != "":
		return failed(key, f.reason)
	case errors.Is(context.Cause(ctx), errShutdown):
		return failed(key, reasonShutdown)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return failed(key, reasonDeadline)
	}
	return failed(key, reasonFailed)
}
