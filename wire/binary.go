package wire

import (
	"encoding/binary"
	"encoding/json"
)

// The kinds of what a binary frame carries.
const (
	KindAudio = "audio"
	KindTTS   = "tts"
)

// maxHeader bounds the header of a binary frame.
const maxHeader = 4 << 10

// MaxChunk is how many bytes fit into one binary frame beside its header.
const MaxChunk = MaxFrame - maxHeader - 4

// BinaryHeader says what the bytes of a binary frame are. Every binary frame has one but the audio that a session sends.
type BinaryHeader struct {
	Kind string `json:"kind" enum:"audio,tts"`
	ActiveJob
	Chunk int  `json:"chunk" doc:"Counts the frames of one kind of one attempt from 0."`
	Last  bool `json:"last,omitempty" doc:"No further chunk comes."`
	// Audio is the format of a spoken result.
	Audio *AudioFormat `json:"audio,omitempty" doc:"In chunk 0 of tts: its format. A node may leave it out where its job_result says it; in what a session is sent it is always there."`
}

// AppendBinary writes a binary frame.
func AppendBinary(b []byte, h *BinaryHeader, data []byte) ([]byte, error) {
	header, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(header)))
	return append(append(b, header...), data...), nil
}

// ReadBinary takes a binary frame apart. The bytes are part of the frame, not a copy. The error, if any, is an *Error.
func ReadBinary(frame []byte) (BinaryHeader, []byte, error) {
	var h BinaryHeader
	if len(frame) < 4 {
		return h, nil, Errorf(InvalidRequest, "a binary frame begins with its header's length in four bytes; this one has %d bytes", len(frame))
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
