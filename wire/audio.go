package wire

import (
	"cmp"
	"fmt"
)

// The encodings of audio, and the container in which Opus is carried over HTTP.
const (
	EncodingPCM  = "pcm_s16le"
	EncodingOpus = "opus"
	EncodingWAV  = "wav"
	ContainerOgg = "ogg"
)

// AudioHeader is the HTTP header with the format of the audio in a body: "pcm_s16le; rate=16000; channels=1".
const AudioHeader = "X-Lingua-Audio"

// AudioFormat is how audio is encoded. OrDefault gives the values of fields that are left out.
type AudioFormat struct {
	Encoding   string `json:"encoding,omitempty" enum:"pcm_s16le,opus,wav" doc:"pcm_s16le unless given."`
	SampleRate int    `json:"sample_rate,omitempty" minimum:"8000" maximum:"48000" doc:"16000 unless given."`
	Channels   int    `json:"channels,omitempty" minimum:"1" maximum:"2" doc:"1 unless given."`
}

// Audio is the format of a job's audio and where the audio is.
type Audio struct {
	AudioFormat
	Container  string `json:"container,omitempty" enum:"ogg" doc:"The container of opus packets at the URL or audio_ref: an Ogg stream. Absent: one packet per binary frame, or audio without packets."`
	Ref        string `json:"ref,omitempty" doc:"The audio_ref of a job dispatched over HTTP, as it was given."`
	URL        string `json:"url,omitempty" doc:"The URL of the audio, for GET. Absent, and no ref: the audio follows in binary frames."`
	Bytes      int64  `json:"bytes,omitempty" doc:"Its size, including the container."`
	DurationMS int64  `json:"duration_ms,omitempty"`
}

// OrDefault returns the format with the defaults filled in: pcm_s16le, 16000, 1.
func (f AudioFormat) OrDefault() AudioFormat {
	return AudioFormat{
		Encoding: cmp.Or(f.Encoding, EncodingPCM), SampleRate: cmp.Or(f.SampleRate, 16_000), Channels: cmp.Or(f.Channels, 1),
	}
}

// Check returns an error if the format, with its defaults filled in, is invalid. Field is the format's name in the request,
// for the error.
func (f AudioFormat) Check(field string) *Error {
	switch {
	case f.Encoding != EncodingPCM && f.Encoding != EncodingOpus && f.Encoding != EncodingWAV:
		return Invalid(field+".encoding", "must be pcm_s16le, opus or wav, not %q", f.Encoding)
	case f.SampleRate < 8_000 || f.SampleRate > 48_000:
		return Invalid(field+".sample_rate", "must be between 8000 and 48000, not %d", f.SampleRate)
	case f.Channels < 1 || f.Channels > 2:
		return Invalid(field+".channels", "must be 1 or 2, not %d", f.Channels)
	}
	return nil
}

// Header returns the format as a value of AudioHeader.
func (f AudioFormat) Header() string {
	return fmt.Sprintf("%s; rate=%d; channels=%d", f.Encoding, f.SampleRate, f.Channels)
}

// ContentType returns the media type of a body in the format. PCM is not audio/L16, which is big-endian.
func (f AudioFormat) ContentType() string {
	switch f.Encoding {
	case EncodingOpus:
		return "audio/ogg; codecs=opus"
	case EncodingWAV:
		return "audio/wav"
	}
	return fmt.Sprintf("audio/pcm; rate=%d; channels=%d", f.SampleRate, f.Channels)
}
