package node

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
	"github.com/lingua-scheduler/lingua/wire/oggopus"
)

// maxAudioBytes limits the audio of one job: five times a minute of the largest format.
const maxAudioBytes = 64 << 20

// Audio returns the audio of the job: samples for pcm_s16le, a WAV file, or an Ogg stream for opus (see Packets). It waits
// until all audio has arrived, and may be called more than once. A job that was dispatched over HTTP has no audio here
// (ErrNoAudio): its AudioRef tells where the audio is. That of a probe is silence.
func (j *Job) Audio(ctx context.Context) ([]byte, error) {
	data, err := j.received(ctx)
	if err != nil || !j.audio.isPackets {
		return data, err
	}
	packets, err := j.Packets(ctx)
	if err != nil {
		return nil, err
	}
	data, err = oggopus.Encode(&oggopus.Stream{Channels: j.Format.Channels, SampleRate: j.Format.SampleRate, Packets: packets}, 1)
	if err != nil {
		return nil, invalidAudio(err)
	}
	return data, nil
}

// Packets returns the Opus packets of the job's audio, for handlers that decode Opus themselves. It waits like Audio. Other
// encodings have no packets (ErrNoPackets).
func (j *Job) Packets(ctx context.Context) ([][]byte, error) {
	if j.Format.Encoding != wire.EncodingOpus {
		return nil, ErrNoPackets
	}
	data, err := j.received(ctx)
	if err != nil {
		return nil, err
	}
	if j.audio.isPackets {
		return j.audio.split()
	}
	s, err := oggopus.Decode(data)
	if err != nil {
		return nil, invalidAudio(err)
	}
	return s.Packets, nil
}

// received returns the audio as it was received, in frames or from a URL.
func (j *Job) received(ctx context.Context) ([]byte, error) {
	n := j.attempt.node
	switch audio := j.attempt.assign.Audio; {
	case j.attempt.isAudioInFrames():
		return j.audio.wait(ctx, n.timing.audioTimeout)
	case audio != nil && j.Probe && audio.Ref != "":
		return decodeDataURL(audio.Ref)
	case audio == nil || audio.URL == "":
		return nil, ErrNoAudio
	default:
		return j.audio.fetchOnce(func() ([]byte, error) {
			return n.executor.transfers.download(ctx, j.attempt.base, audio.URL)
		})
	}
}

// decodeDataURL returns the content of a data URL in base64.
func decodeDataURL(address string) ([]byte, error) {
	head, body, found := strings.Cut(address, ",")
	if !found || !strings.HasPrefix(head, "data:") || !strings.HasSuffix(head, ";base64") {
		return nil, ErrNoAudio
	}
	data, err := base64.StdEncoding.DecodeString(body)
	if err != nil {
		return nil, invalidAudio(err)
	}
	return data, nil
}

// invalidAudio returns the error of audio that cannot be decoded. Another node may receive it intact.
func invalidAudio(err error) error {
	return fmt.Errorf("the audio is invalid: %w: %w", err, Fail(reasonAudioLost))
}

// audioBuffer is the audio of a job while it arrives.
type audioBuffer struct {
	isPackets bool // each chunk is a packet; set before the first chunk

	mu         sync.Mutex
	data       []byte
	packetEnds []int     // the offset in data after each packet
	nextChunk  int       // the number of the next chunk
	lastChunk  time.Time // when a chunk arrived last, or the wait for one began
	err        error
	complete   bool          // no more chunks are taken: all audio is here, or err is set
	done       chan struct{} // closed when the audio is complete
}

func (b *audioBuffer) init(now time.Time) { b.lastChunk, b.done = now, make(chan struct{}) }

// add takes a chunk. A repeated chunk, and one that is out of order, is ignored.
func (b *audioBuffer) add(chunk int, data []byte, last bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lastChunk = time.Now()
	if b.complete || chunk != b.nextChunk {
		return
	}
	b.nextChunk++
	if len(b.data)+len(data) > maxAudioBytes {
		b.err, b.data, last = fmt.Errorf("the audio is larger than %d bytes: %w", maxAudioBytes, Fail(reasonAudioLost)), nil, true
	}
	if b.isPackets && len(b.packetEnds) == oggopus.MaxPackets && len(data) > 0 {
		b.err, b.data, last = invalidAudio(fmt.Errorf("more than %d packets", oggopus.MaxPackets)), nil, true
	}
	if b.err == nil {
		b.data = append(b.data, data...)
		if b.isPackets && len(data) > 0 { // the last chunk may be empty
			b.packetEnds = append(b.packetEnds, len(b.data))
		}
	}
	if last {
		b.complete = true
		close(b.done)
	}
}

// chunkCount returns how many chunks were received without a gap from the first, up to the number that is reported.
func (b *audioBuffer) chunkCount() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return min(b.nextChunk, maxReportedChunks)
}

// split returns the packets of complete audio.
func (b *audioBuffer) split() ([][]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	packets, start := make([][]byte, len(b.packetEnds)), 0
	for i, end := range b.packetEnds {
		packets[i] = b.data[start:end:end]
		if _, err := oggopus.Samples(packets[i]); err != nil {
			return nil, invalidAudio(fmt.Errorf("packet %d: %w", i, err))
		}
		start = end
	}
	return packets, nil
}

// restartTimeout restarts the timeout of wait, because there is a new connection.
func (b *audioBuffer) restartTimeout() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lastChunk = time.Now()
}

// fail gives up incomplete audio: the connection over which it arrived is lost, and the instance of the new one does not
// have it. Complete audio is kept.
func (b *audioBuffer) fail() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.complete {
		return
	}
	b.err, b.data, b.complete = fmt.Errorf("the rest of the audio was lost with the connection: %w", Fail(reasonAudioLost)), nil, true
	close(b.done)
}

// wait returns the audio when it is complete. It fails if no chunk arrives for the given time, so that the job moves to
// another node instead of waiting for its deadline.
func (b *audioBuffer) wait(ctx context.Context, timeout time.Duration) ([]byte, error) {
	t := time.NewTimer(timeout)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-b.done:
			return b.data, b.err
		case <-t.C:
		}
		b.mu.Lock()
		left := timeout - time.Since(b.lastChunk)
		b.mu.Unlock()
		if left <= 0 {
			return nil, fmt.Errorf("no audio arrived for %v: %w", timeout, Fail(reasonAudioLost))
		}
		t.Reset(left)
	}
}

// fetchOnce returns the audio, and downloads it if that was not done before.
func (b *audioBuffer) fetchOnce(download func() ([]byte, error)) ([]byte, error) {
	b.mu.Lock()
	complete, data, err := b.complete, b.data, b.err
	b.mu.Unlock()
	if complete {
		return data, err
	}
	if data, err = download(); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.data, b.complete = data, true
	return data, nil
}
