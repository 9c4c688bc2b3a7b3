package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/lingua-scheduler/lingua/wire"
)

// maxSkippedChunk bounds a chunk that is skipped before the audio of a WAV file.
const maxSkippedChunk = 16 << 20

// errNotPCM is the error of a file that is not WAV or not 16-bit PCM.
var errNotPCM = errors.New("not a WAV file of 16-bit PCM; convert it, for instance with: ffmpeg -i FILE -ac 1 -ar 16000 -c:a pcm_s16le " +
	"out.wav")

// readWAV reads a WAV file up to its audio and returns the format of it.
func readWAV(r io.Reader) (wire.AudioFormat, error) {
	f := wire.AudioFormat{Encoding: "pcm_s16le"}
	var head [12]byte
	if _, err := io.ReadFull(r, head[:]); err != nil || string(head[:4]) != "RIFF" || string(head[8:]) != "WAVE" {
		return f, errNotPCM
	}
	for hasFormat := false; ; {
		var chunk [8]byte
		if _, err := io.ReadFull(r, chunk[:]); err != nil {
			return f, errNotPCM
		}
		size := binary.LittleEndian.Uint32(chunk[4:])
		switch string(chunk[:4]) {
		case "data":
			if !hasFormat {
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
				return f, fmt.Errorf("%d channels at %d Hz are not supported; 1 or 2 channels at 8000 to 48000 Hz are", f.Channels,
					f.SampleRate)
			}
			hasFormat, size = true, size-uint32(len(body))
		}
		if size += size % 2; size > maxSkippedChunk {
			return f, errNotPCM
		}
		if _, err := io.CopyN(io.Discard, r, int64(size)); err != nil {
			return f, errNotPCM
		}
	}
}
