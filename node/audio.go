package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/lingua-scheduler/lingua/wire"
	"github.com/lingua-scheduler/lingua/wire/oggopus"
)

// ErrNoPackets is returned by Job.Packets for audio whose encoding has none.
var ErrNoPackets = errors.New("node: the audio has no packets: only that of opus does")

// Audio returns the whole audio of the job, waiting for it as long as needed: samples of pcm_s16le, a WAV file, and of opus an
// Ogg stream, as any decoder takes it, however its packets came; see Packets. It may be called more than once. A job that came
// over HTTP has none here (ErrNoAudio): its AudioRef says where it is, in words that the node must understand.
func (j *Job) Audio(ctx context.Context) ([]byte, error) {
	audio, err := j.audio(ctx)
	if err != nil || !j.sound.packets {
		return audio, err
	}
	packets, err := j.Packets(ctx)
	if err != nil {
		return nil, err
	}
	audio, err = oggopus.Encode(&oggopus.Stream{Channels: j.Format.Channels, SampleRate: j.Format.SampleRate, Packets: packets}, 1)
	if err != nil {
		return nil, unusable(err)
	}
	return audio, nil
}

// Packets returns the packets of the job's audio, for whoever decodes Opus itself, waiting for them as Audio does. Other
// encodings have none (ErrNoPackets).
func (j *Job) Packets(ctx context.Context) ([][]byte, error) {
	if j.Format.Encoding != wire.EncodingOpus {
		return nil, ErrNoPackets
	}
	audio, err := j.audio(ctx)
	if err != nil {
		return nil, err
	}
	if !j.sound.packets {
		s, err := oggopus.Decode(audio)
		if err != nil {
			return nil, unusable(err)
		}
		return s.Packets, nil
	}
	return j.sound.split()
}

// audio returns the audio as it came.
func (j *Job) audio(ctx context.Context) ([]byte, error) {
	switch audio := j.task.assign.Audio; {
	case j.task.inFrames():
		return j.sound.wait(ctx, j.task.node.pace.stall)
	case audio == nil || audio.URL == "":
		return nil, ErrNoAudio
	default:
		return j.sound.fetch(ctx, j.task, audio.URL)
	}
}

// inFrames reports whether the job's audio comes in binary frames, over the node's connection.
func (t *task) inFrames() bool {
	audio := t.assign.Audio
	return audio != nil && audio.URL == "" && audio.Ref == ""
}

// unusable is the error of audio that cannot be taken apart: another node may get it whole.
func unusable(err error) error {
	return fmt.Errorf("the audio cannot be read: %w: %w", err, Fail(reasonAudioLost))
}
