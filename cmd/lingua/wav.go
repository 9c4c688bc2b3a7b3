package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/lingua-scheduler/lingua/wire"
)

// maxChunk bounds what is skipped of a WAV file before its sound.
const maxChunk = 16 << 20

// errNotPCM says what kind of file is needed.
var errNotPCM = errors.New("it is not a WAV file of 16-bit PCM; convert it, for instance with: ffmpeg -i FILE -ac 1 -ar 16000 -c:a pcm_s16le out.wav")

// readWAV reads a WAV file up to its sound, and says how the sound is written down.
func readWAV(r io.Reader) (wire.AudioFormat, error) {
	f := wire.AudioFormat{Encoding: "pcm_s16le"}
	var head [12]byte
	if _, err := io.ReadFull(r, head[:]); err != nil || string(head[:4]) != "RIFF" || string(head[8:]) != "WAVE" {
		return f, errNotPCM
	}
	for known := false; ; {
		var chunk [8]byte
		if _, err := io.ReadFull(r, chunk[:]); err != nil {
			return f, errNotPCM
		}
		size := binary.LittleEndian.Uint32(chunk[4:])
		switch string(chunk[:4]) {
		case "data":
			if !known {
				return f, errNotPCM
			}
			return f, nil
		case "fmt ":
			body := make([]byte, min(size, 64))
			if _, err := io.ReadFull(r, body); err != nil || len(body) < 16 {
				return f, errNotPCM
			}
			kind, bits := binary.LittleEndian.Uint16(body), binary.LittleEndian.Uint16(body[14:])
			f.Channels, f.SampleRate = int(binary.LittleEndian.Uint16(body[2:])), int(binary.LittleEndian.Uint32(body[4:]))
			if kind != 1 && kind != 0xfffe || bits != 16 {
				return f, errNotPCM
			}
			if f.Channels < 1 || f.Channels > 2 || f.SampleRate < 8000 || f.SampleRate > 48_000 {
				return f, fmt.Errorf("it has %d channels at %d Hz; one or two, at 8000 to 48000 Hz, can be sent", f.Channels, f.SampleRate)
			}
			known, size = true, size-uint32(len(body))
		}
		if size += size % 2; size > maxChunk {
			return f, errNotPCM
		}
		if _, err := io.CopyN(io.Discard, r, int64(size)); err != nil {
			return f, errNotPCM
		}
	}
}
