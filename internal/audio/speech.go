package audio

import (
	"bytes"
	"encoding/binary"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/lingua-scheduler/lingua/wire"
	"github.com/lingua-scheduler/lingua/wire/oggopus"
)

// Nodes send speech in two ways: in binary frames over a connection, or as an upload. Each names its format, and sessions
// receive both in the same way: Opus with one packet in each frame.

// MaxSpeech is the largest spoken result that is accepted.
const MaxSpeech = 4 << 20

// SpeechFormat reads the format of speech that a node names; nil is the default.
func SpeechFormat(field string, f *wire.AudioFormat) (wire.AudioFormat, *wire.Error) {
	if f == nil {
		f = &wire.AudioFormat{}
	}
	format := f.OrDefault()
	return format, format.Check(field)
}

// CheckSpeech returns what is wrong with a binary frame of speech, or nil. The format is that of the job_result.
func CheckSpeech(h *wire.BinaryHeader, format wire.AudioFormat, data []byte) *wire.Error {
	if h.Chunk == 0 && h.Audio != nil {
		if declared, e := SpeechFormat("audio", h.Audio); e != nil {
			return e
		} else if declared != format {
			return wire.Invalid("audio", "is %s, and the job_result said %s (in tts_audio)", declared.Header(), format.Header())
		}
	}
	switch {
	case len(data) == 0:
		return nil // the last frame may be empty
	case format.Encoding == wire.EncodingOpus:
		if _, err := oggopus.Samples(data); err != nil {
			return wire.Invalid("audio", "a frame of opus speech is one packet without a container: %v", err)
		}
	case format.Encoding == wire.EncodingWAV && h.Chunk == 0 && !bytes.HasPrefix(data, riff):
		return notWAV()
	}
	return nil
}

// notWAV is the error for wav speech without a RIFF header.
func notWAV() *wire.Error {
	return wire.Invalid("audio", "wav speech begins with its RIFF header; send raw samples as pcm_s16le")
}

// ParseUpload reads an uploaded spoken result: its format and the content of each binary frame. The header of an Ogg or WAV
// file has precedence over the headers of the request.
func ParseUpload(h http.Header, body []byte) (wire.AudioFormat, [][]byte, *wire.Error) {
	format, e := headerFormat(h)
	if e != nil {
		return format, nil, e
	}
	chunks := slices.Collect(slices.Chunk(body, wire.SpeechChunk))
	switch format.Encoding {
	case wire.EncodingOpus:
		s, err := oggopus.Decode(body)
		if err != nil {
			return format, nil, wire.Invalid("audio", "opus speech is uploaded in an Ogg stream: %v", err)
		}
		chunks, format.Channels = s.Packets, s.Channels
		if s.SampleRate > 0 {
			format.SampleRate = min(s.SampleRate, oggopus.Rate) // the codec has no higher rate
		}
	case wire.EncodingWAV:
		if !bytes.HasPrefix(body, riff) {
			return format, nil, notWAV()
		}
		if len(body) >= 28 && string(body[12:16]) == "fmt " {
			format.Channels, format.SampleRate = int(binary.LittleEndian.Uint16(body[22:])), int(binary.LittleEndian.Uint32(body[24:]))
		}
	default:
		if len(body)%(2*max(1, format.Channels)) != 0 {
			return format, nil, wire.Invalid("audio", "pcm_s16le with %d channels has a multiple of %d bytes, not %d", format.Channels,
				2*format.Channels, len(body))
		}
	}
	if len(chunks) == 0 {
		chunks = [][]byte{{}}
	}
	return format, chunks, format.Check("audio")
}

// mediaTypes are the encodings that a Content-Type may name.
var mediaTypes = map[string]string{
	"audio/pcm": wire.EncodingPCM,
	"audio/wav": wire.EncodingWAV, "audio/x-wav": wire.EncodingWAV, "audio/wave": wire.EncodingWAV, "audio/vnd.wave": wire.EncodingWAV,
	"audio/ogg": wire.EncodingOpus, "audio/opus": wire.EncodingOpus,
}

// headerFormat reads the format that the headers of an upload name, or the default if they name none. A media type other than
// audio is ignored, because HTTP clients set one by default.
func headerFormat(h http.Header) (wire.AudioFormat, *wire.Error) {
	var format wire.AudioFormat
	value, header := h.Get(wire.AudioHeader), wire.AudioHeader
	if value == "" {
		value, header = h.Get("Content-Type"), "Content-Type"
	}
	name, params, err := mime.ParseMediaType(value)
	switch encoding, known := mediaTypes[name]; {
	case header == wire.AudioHeader && err != nil:
		return format, wire.Invalid(header, "must be as in \"pcm_s16le; rate=16000; channels=1\"")
	case header == wire.AudioHeader:
		format.Encoding = name
	case err == nil && known:
		format.Encoding = encoding
	case strings.HasPrefix(value, "audio/"):
		return format, wire.Errorf(wire.UnsupportedMediaType, "speech is audio/pcm, audio/wav or audio/ogg with Opus, not %q", value)
	default:
		return format.OrDefault(), nil
	}
	for param, target := range map[string]*int{"rate": &format.SampleRate, "channels": &format.Channels} {
		if text, ok := params[param]; ok {
			n, err := strconv.Atoi(text)
			if err != nil || n <= 0 {
				return format, wire.Invalid(header, "%s must be a whole number, not %q", param, text)
			}
			*target = n
		}
	}
	format = format.OrDefault()
	return format, format.Check(header)
}
