// Package oggopus reads and writes Ogg Opus streams (RFC 3533, RFC 7845). Opus packets have no length, so that concatenated
// packets cannot be decoded; the Ogg container separates them, and every player reads it. The scheduler serves Opus audio in
// this container over HTTP and accepts Opus speech in it. The package does no I/O.
package oggopus

import (
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	// Rate is the rate of Opus samples per second, whatever rate the audio had before it was encoded.
	Rate = 48_000
	// MaxPacket is the maximum size of a packet: 48 frames of 1275 bytes and their headers (RFC 7845, section 6).
	MaxPacket = 61_440
	// MaxPackets is the maximum number of packets of a stream: 160 s of the shortest packets, 20 minutes of usual ones.
	MaxPackets = 64_000
	// maxSamples is the maximum duration of a packet: 120 ms (RFC 6716, section 3.2).
	maxSamples = Rate * 120 / 1000
	// preSkip is how many samples a decoder drops at the beginning: the lookahead of libopus.
	preSkip = 312
)

// Stream is an Opus stream: a sequence of packets.
type Stream struct {
	Channels   int // 1 or 2
	SampleRate int // of the audio before it was encoded; 0: not known
	Packets    [][]byte
}

// Samples returns the duration of a packet, in samples at Rate. It returns an error if the packet is invalid.
func Samples(packet []byte) (int, error) {
	switch {
	case len(packet) == 0:
		return 0, errors.New("an Opus packet cannot be empty")
	case len(packet) > MaxPacket:
		return 0, fmt.Errorf("an Opus packet has at most %d bytes, not %d", MaxPacket, len(packet))
	}
	config, frames := packet[0]>>3, 1
	switch packet[0] & 3 {
	case 1, 2:
		frames = 2
	case 3:
		if len(packet) < 2 || packet[1]&63 == 0 {
			return 0, errors.New("an Opus packet of several frames lacks their number")
		}
		frames = int(packet[1] & 63)
	}
	samples := frames * frameSamples(config)
	if samples > maxSamples {
		return 0, fmt.Errorf("an Opus packet lasts at most 120 ms, not %d", samples/(Rate/1000))
	}
	return samples, nil
}

// frameSamples returns the duration of a frame, by the configuration of its packet (RFC 6716, section 3.1).
func frameSamples(config byte) int {
	const tenMS = Rate / 100
	switch {
	case config < 12: // SILK: 10, 20, 40, 60 ms
		return [4]int{tenMS, 2 * tenMS, 4 * tenMS, 6 * tenMS}[config&3]
	case config < 16: // hybrid: 10, 20 ms
		return tenMS << (config & 1)
	default: // CELT: 2.5, 5, 10, 20 ms
		return tenMS / 4 << (config & 3)
	}
}

const (
	headMagic = "OpusHead"
	tagsMagic = "OpusTags"
	headSize  = 19
	vendor    = "lingua"
)

// appendHead appends the identification header of a stream (RFC 7845, section 5.1).
func (s *Stream) appendHead(b []byte, skip int) []byte {
	b = append(append(b, headMagic...), 1, byte(s.Channels))
	b = binary.LittleEndian.AppendUint16(b, uint16(skip))
	b = binary.LittleEndian.AppendUint32(b, uint32(s.SampleRate))
	return append(b, 0, 0, 0) // no gain; mapping family 0: mono or stereo
}

// readHead reads the identification header.
func (s *Stream) readHead(packet []byte) error {
	switch {
	case len(packet) < headSize || string(packet[:8]) != headMagic:
		return errors.New("the Ogg stream is not Opus: it does not begin with OpusHead")
	case packet[8]&0xf0 != 0:
		return fmt.Errorf("version %d of OpusHead is not known", packet[8])
	case packet[18] != 0 || packet[9] != 1 && packet[9] != 2:
		return errors.New("only mono and stereo are read (mapping family 0)")
	}
	s.Channels, s.SampleRate = int(packet[9]), int(binary.LittleEndian.Uint32(packet[12:]))
	return nil
}

// appendTags appends the comment header (RFC 7845, section 5.2), without comments.
func appendTags(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(append(b, tagsMagic...), uint32(len(vendor)))
	return binary.LittleEndian.AppendUint32(append(b, vendor...), 0)
}
