package wire

import (
	"encoding/binary"
	"encoding/json"
)

// The kinds of binary frames: audio of a job, and speech.
const (
	KindAudio = "audio"
	KindTTS   = "tts"
)

// maxHeader bounds the header of a binary frame.
const maxHeader = 4 << 10

// MaxChunk is the maximum payload of one binary frame, in bytes.
const MaxChunk = MaxFrame - maxHeader - 4

// SpeechChunk is the payload of the binary frames into which speech is cut. They are short because a page in a browser sees only whole
// messages: on a slow connection a long one would look like silence.
const SpeechChunk = 32 << 10

// BinaryHeader describes the payload of a binary frame. Every binary frame has one, except the audio that a client sends.
type BinaryHeader struct {
	Kind string `json:"kind" enum:"audio,tts"`
	ActiveJob
	Chunk int  `json:"chunk" doc:"The number of the frame among those of the same kind and attempt, from 0."`
	Last  bool `json:"last,omitempty" doc:"This is the last chunk."`
	// Audio is the format of speech.
	Audio *AudioFormat `json:"audio,omitempty" doc:"In chunk 0 of tts: its format. A node may omit it if its job_result has it; frames to a client always have it."`
}

// AppendBinary appends a binary frame to b.
func AppendBinary(b []byte, h *BinaryHeader, data []byte) ([]byte, error) {
	header, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(header)))
	return append(append(b, header...), data...), nil
}

// ReadBinary splits a binary frame into its header and payload. The payload is a part of the frame, not a copy. The error,
// if any, is an *Error.
func ReadBinary(frame []byte) (BinaryHeader, []byte, error) {
	var h BinaryHeader
	if len(frame) < 4 {
		return h, nil, Errorf(InvalidRequest, "a binary frame begins with its header's length in four bytes; this one has %d bytes",
			len(frame))
	}
	n := binary.BigEndian.Uint32(frame)
	if n > maxHeader || int(n) > len(frame)-4 {
		return h, nil, Errorf(InvalidRequest, "the header of a binary frame cannot be %d bytes long", n)
	}
	if err := Decode(frame[4:4+n], &h); err != nil {
		return h, nil, err
	}
	switch {
	case h.Kind != KindAudio && h.Kind != KindTTS:
		return h, nil, Invalid("kind", "must be audio or tts")
	case h.JobID == "":
		return h, nil, Invalid("job_id", "is missing")
	case h.Chunk < 0:
		return h, nil, Invalid("chunk", "counts from 0")
	}
	return h, frame[4+n:], nil
}
