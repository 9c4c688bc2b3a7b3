package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/lingua-scheduler/lingua/wire"
	"github.com/lingua-scheduler/lingua/wire/oggopus"
)

const (
	// maxSpeechBytes limits the speech of one job.
	maxSpeechBytes = maxAudioBytes
	// frameOverhead is the memory of a frame of an outcome without its result.
	frameOverhead = 1 << 10
)

// outcome is the outcome of an attempt as it is sent to the scheduler.
type outcome struct {
	frames []wire.Frame
	speech *speech // sent in binary frames after the frames; nil: none
}

// size returns the memory that the outcome takes.
func (o *outcome) size() int {
	size := 0
	if o.speech != nil {
		size = o.speech.size
	}
	for _, f := range o.frames {
		size += frameOverhead
		if r, ok := f.(wire.JobResult); ok {
			size += len(r.Result)
		}
	}
	return size
}

// failure returns the outcome of an attempt that failed for a reason.
func failure(key wire.ActiveJob, reason string) outcome {
	return outcome{frames: []wire.Frame{wire.JobFail{ActiveJob: key, Reason: reason}}}
}

// failureOf returns the outcome of an attempt whose handler returned an error.
func failureOf(ctx context.Context, key wire.ActiveJob, err error) outcome {
	var missing NotAvailableError
	var pointer *NotAvailableError
	if errors.As(err, &pointer) && pointer != nil {
		err = *pointer
	}
	var withReason *reasonError
	switch {
	case errors.As(err, &missing):
		// The first frame names the service, the second ends the attempt and is acknowledged. Either of them is enough.
		return outcome{frames: []wire.Frame{
			wire.ModelNotAvailable{
				ServiceID: missing.Service, Version: missing.Version, Reason: missing.Reason, JobID: key.JobID, AttemptID: key.AttemptID,
			},
			wire.JobFail{ActiveJob: key, Reason: reasonModel},
		}}
	case errors.As(err, &withReason) && withReason.reason != "":
		return failure(key, withReason.reason)
	case errors.Is(context.Cause(ctx), errShutdown):
		return failure(key, reasonShutdown)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return failure(key, reasonDeadline)
	}
	return failure(key, reasonFailed)
}

// success returns the outcome of a result and the speech that follows it, if any. It returns an error if the result cannot be
// sent, because the scheduler would close the connection.
func success(key wire.ActiveJob, r Result, s *speech, uploaded bool) (outcome, error) {
	body, err := r.encode(uploaded)
	if err != nil {
		return outcome{}, err
	}
	frame := wire.JobResult{ActiveJob: key, Result: body}
	if s != nil {
		frame.TTS, frame.TTSAudio = true, &s.format
	}
	return outcome{frames: []wire.Frame{frame}, speech: s}, checkFrame(frame)
}

// encode returns the JSON of the result that is kept with the job. It has tts: true if the speech was uploaded.
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

var errFrameTooLarge = fmt.Errorf("the message is larger than %d bytes", wire.MaxFrame)

// checkFrame returns an error if the scheduler would not accept a frame.
func checkFrame(f wire.Frame) error {
	text, err := wire.EncodeFrame(f)
	if err != nil {
		return err
	}
	if len(text) > wire.MaxFrame {
		return errFrameTooLarge
	}
	err = wire.Decode(text, &struct{}{}) // checks the nesting
	return err
}

// speech is the speech of a result.
type speech struct {
	format wire.AudioFormat
	file   []byte   // for an upload
	chunks [][]byte // the payloads of binary frames; for opus, one packet each
	size   int
}

// newSpeech returns the speech of a result; nil if it has none. It returns an error if the speech cannot be sent.
func newSpeech(r *Result) (*speech, error) {
	if len(r.Speech) == 0 {
		return nil, nil
	}
	if len(r.Speech) > maxSpeechBytes {
		return nil, fmt.Errorf("the speech has %d bytes; the maximum is %d", len(r.Speech), maxSpeechBytes)
	}
	s := &speech{format: r.SpeechFormat.OrDefault(), file: r.Speech, size: len(r.Speech)}
	if s.format.Encoding == wire.EncodingOpus {
		stream, err := oggopus.Decode(r.Speech)
		if err != nil {
			return nil, err
		}
		s.chunks, s.format.Channels = stream.Packets, stream.Channels
		if stream.SampleRate > 0 {
			s.format.SampleRate = min(stream.SampleRate, oggopus.Rate)
		}
	} else {
		s.chunks = slices.Collect(slices.Chunk(r.Speech, wire.SpeechChunk))
	}
	if e := s.format.Check("SpeechFormat"); e != nil {
		return nil, e
	}
	return s, nil
}
