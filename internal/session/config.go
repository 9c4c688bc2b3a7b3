package session

import (
	"time"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// Config is how conversations are treated.
type Config struct {
	Instance core.InstanceID // this incarnation of this scheduler

	Pause        time.Duration // an utterance ends after so long without audio, or of silence
	MaxUtterance time.Duration // or when it is this long
	Silence      float64       // PCM quieter than this is silence, unless a session says otherwise

	Ahead             time.Duration // how far audio may run ahead of real time
	Resume            time.Duration // how long after a cut a session can go on
	Idle              time.Duration // how long a session may say nothing
	Wait              time.Duration // how long an utterance waits for a node with room
	JoinWait          time.Duration // how long if no registered node could serve it
	Job               time.Duration // how long its job may take then
	MaxUnanswered     int           // utterances of a session that may wait for their results at once
	MaxUtteranceBytes int           // bytes of audio of one utterance
	OutboxBytes       int64         // bytes of durable messages of one session that its client has not acknowledged
	FirstMessage      time.Duration // for whoever tells clients
	Ping              time.Duration
}

// keep is how long the durable messages of a session outlive the last of them.
func (c *Config) keep() time.Duration { return c.Resume + c.Wait + c.Job + c.Idle }

// renew is how often the state of a session is written anew, so that it outlives long silences.
func (c *Config) renew() time.Duration { return c.keep() / 3 }

// resultWithin is how long after its commit, or the last resume, an utterance ends without a result if it has none by
// then: its job ends by itself before that, unless it waits for audio that does not come.
func (c *Config) resultWithin() time.Duration { return c.Wait + c.Job + time.Second }

// resultSlack is what it may take to end it.
const resultSlack = 2 * time.Second

// limits is what a session is told that it must keep to.
func (c *Config) limits() wire.SessionLimits {
	return wire.SessionLimits{
		FrameBytes: wire.MaxFrame, UtteranceMS: c.MaxUtterance.Milliseconds(), BufferedMS: c.Ahead.Milliseconds(),
		ResumeMS: c.Resume.Milliseconds(), IdleMS: c.Idle.Milliseconds(), OpenUtterances: c.MaxUnanswered,
		FirstMessageMS: c.FirstMessage.Milliseconds(), PingIntervalMS: c.Ping.Milliseconds(),
		ResultTimeoutMS: (c.resultWithin() + resultSlack).Milliseconds(), UtteranceRate: utteranceRate,
	}
}

// settings is what a session wants. It is saved with the session, so that it can go on elsewhere.
type settings struct {
	Langs    [2]core.Lang
	Src      core.Lang // of utterances that do not say theirs
	Format   wire.AudioFormat
	Pause    time.Duration
	Longest  time.Duration
	Silence  float64
	Partials bool
	TTS      bool
	Manual   bool // utterances end when the client says so, or at Longest
	Numbered bool // binary frames begin with their sequence number
}

func (s *settings) rules() rules {
	return rules{auto: !s.Manual, pause: s.Pause, longest: s.Longest, silence: s.Silence}
}

// direction is the direction of an utterance in one of the session's two languages, and false if it is neither.
func (s *settings) direction(src core.Lang) (core.Direction, bool) {
	switch src {
	case "", s.Src:
		src = s.Src
	case s.Langs[0], s.Langs[1]:
	default:
		return core.Direction{}, false
	}
	if src == s.Langs[0] {
		return core.Direction{Src: src, Tgt: s.Langs[1]}, true
	}
	return core.Direction{Src: src, Tgt: s.Langs[0]}, true
}

// segment takes over what a client wants of the segmentation.
func (s *settings) segment(c *Config, in *wire.SessionSegmentation) *wire.Error {
	switch {
	case in.PauseMS != 0 && (in.PauseMS < 100 || in.PauseMS > 10_000):
		return wire.Invalid("segmentation.pause_ms", "must be between 100 and 10000, not %d", in.PauseMS)
	case in.MaxUtteranceMS != 0 && (in.MaxUtteranceMS < 1_000 || in.MaxUtteranceMS > c.MaxUtterance.Milliseconds()):
		return wire.Invalid("segmentation.max_utterance_ms", "must be between 1000 and %d, not %d", c.MaxUtterance.Milliseconds(), in.MaxUtteranceMS)
	case in.SilenceLevel < 0 || in.SilenceLevel > 1:
		return wire.Invalid("segmentation.silence_level", "must be between 0 and 1, not %v", in.SilenceLevel)
	case in.Mode != "" && in.Mode != wire.SegmentAuto && in.Mode != wire.SegmentManual:
		return wire.Invalid("segmentation.mode", "must be auto or manual, not %q", in.Mode)
	}
	if in.Mode != "" {
		s.Manual = in.Mode == wire.SegmentManual
	}
	if in.PauseMS != 0 {
		s.Pause = time.Duration(in.PauseMS) * time.Millisecond
	}
	if in.MaxUtteranceMS != 0 {
		s.Longest = time.Duration(in.MaxUtteranceMS) * time.Millisecond
	}
	if in.SilenceLevel != 0 {
		s.Silence = in.SilenceLevel
	}
	return nil
}

// audio is the format of the session's audio as it holds.
func (s *settings) audio() wire.SessionAudio {
	framing := wire.FramingRaw
	if s.Numbered {
		framing = wire.FramingNumbered
	}
	return wire.SessionAudio{Encoding: s.Format.Encoding, SampleRate: s.Format.SampleRate, Channels: s.Format.Channels, Framing: framing}
}

// said is the segmentation as it holds.
func (s *settings) said() wire.SessionSegmentation {
	mode := wire.SegmentAuto
	if s.Manual {
		mode = wire.SegmentManual
	}
	return wire.SessionSegmentation{Mode: mode, PauseMS: s.Pause.Milliseconds(), MaxUtteranceMS: s.Longest.Milliseconds(), SilenceLevel: s.Silence}
}

// clip is the audio of a committed utterance.
func (s *settings) clip(u *utterance) *audio.Clip {
	c := &audio.Clip{
		Format: s.Format, Data: make([]byte, 0, u.bytes), DurationMS: u.spec.Utterance.AudioMS, Partials: s.Partials, Speech: s.TTS,
	}
	for i := range u.pieces {
		c.Data = append(c.Data, u.pieces[i].data...)
		if s.Format.Encoding == wire.EncodingOpus {
			c.PacketEnds = append(c.PacketEnds, len(c.Data))
		}
	}
	return c
}
