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

// AudioHeader names the format of the audio in the body of a request or an answer: "pcm_s16le; rate=16000; channels=1".
const AudioHeader = "X-Lingua-Audio"

// AudioFormat is how audio is encoded. What is left out is as OrDefault says.
type AudioFormat struct {
	Encoding   string `json:"encoding,omitempty" enum:"pcm_s16le,opus,wav" doc:"pcm_s16le unless given."`
	SampleRate int    `json:"sample_rate,omitempty" minimum:"8000" maximum:"48000" doc:"16000 unless given."`
	Channels   int    `json:"channels,omitempty" minimum:"1" maximum:"2" doc:"1 unless given."`
}

// Audio says what the audio of a job is and where it is.
type Audio struct {
	AudioFormat
	Container  string `json:"container,omitempty" enum:"ogg" doc:"What holds the packets of opus at the URL or audio_ref: an Ogg stream. Absent: binary frames do, one packet each; or the audio has no packets."`
	Ref        string `json:"ref,omitempty" doc:"The audio_ref of a job dispatched over HTTP, as it was given."`
	URL        string `json:"url,omitempty" doc:"Where to GET it. Absent, and no ref: it follows in binary frames."`
	Bytes      int64  `json:"bytes,omitempty" doc:"How large it is, with its container if it has one."`
	DurationMS int64  `json:"duration_ms,omitempty"`
}

// OrDefault is the format with the defaults filled in: pcm_s16le, 16000, 1.
func (f AudioFormat) OrDefault() AudioFormat {
	return AudioFormat{
		Encoding: cmp.Or(f.Encoding, EncodingPCM), SampleRate: cmp.Or(f.SampleRate, 16_000), Channels: cmp.Or(f.Channels, 1),
	}
}

// Check says what is wrong with a format whose defaults are filled in. The field is what the format is called where it came
// from.
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

// Header is the format as AudioHeader has it.
func (f AudioFormat) Header() string {
	return fmt.Sprintf("%s; rate=%d; channels=%d", f.Encoding, f.SampleRate, f.Channels)
}

// ContentType is the media type of a body in the format. That of PCM is not audio/L16, whose bytes are in the other order.
func (f AudioFormat) ContentType() string {
	switch f.Encoding {
	case EncodingOpus:
		return "audio/ogg; codecs=opus"
	case EncodingWAV:
		return "audio/wav"
	}
	return fmt.Sprintf("audio/pcm; rate=%d; channels=%d", f.SampleRate, f.Channels)
}
