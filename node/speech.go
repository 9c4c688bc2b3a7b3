package node

import (
	"fmt"
	"slices"

	"github.com/lingua-scheduler/lingua/wire"
	"github.com/lingua-scheduler/lingua/wire/oggopus"
)

// speech is a spoken result on its way to the scheduler.
type speech struct {
	format wire.AudioFormat
	file   []byte   // as it is uploaded
	chunks [][]byte // what each binary frame holds: of opus one packet
	size   int
}

// newSpeech makes the spoken result of what a handler returned. It is nil if there is none; what could not be sent is an error.
func newSpeech(r *Result) (*speech, error) {
	if len(r.Speech) == 0 {
		return nil, nil
	}
	if len(r.Speech) > mostSpeech {
		return nil, fmt.Errorf("it has %d bytes; %d is the most", len(r.Speech), mostSpeech)
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
		s.chunks = slices.Collect(slices.Chunk(r.Speech, wire.MaxChunk))
	}
	if e := s.format.Check("SpeechFormat"); e != nil {
		return nil, e
	}
	return s, nil
}
