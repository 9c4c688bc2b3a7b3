package session

import (
	"cmp"
	"maps"
	"reflect"
	"time"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/tenants"
	"github.com/lingua-scheduler/lingua/internal/tracing"
	"github.com/lingua-scheduler/lingua/wire"
)

// Config holds the limits and timeouts of sessions.
type Config struct {
	Instance core.InstanceID // this incarnation of this scheduler

	Pause        time.Duration // an utterance ends after so long without audio, or of silence
	MaxUtterance time.Duration // the maximum duration of an utterance
	Silence      float64       // PCM below this level is silence, unless a session sets another level

	Ahead             time.Duration // how far audio may run ahead of real time
	Resume            time.Duration // how long a session without a connection can be resumed
	Idle              time.Duration // how long a connected client may send nothing
	Wait              time.Duration // how long an utterance waits for a node with a free slot
	JoinWait          time.Duration // how long an utterance waits if no registered node could serve it
	Job               time.Duration // how long its job may take after that
	MaxUnanswered     int           // utterances of a session that may wait for their results at once
	UtteranceRate     int           // utterances that a session may begin each second
	MaxUtteranceBytes int           // bytes of audio of one utterance
	Spread            bool          // utterances avoid the node of the one before; each placement is saved
	OutboxBytes       int64         // bytes of durable messages of one session that its client has not acknowledged
	FirstMessage      time.Duration // reported to clients: how long a new connection may take to send its first message
	Ping              time.Duration // reported to clients: the interval of pings
	SlowAfter         time.Duration // a step of an utterance through this instance that takes longer is counted and logged

	// Tenants admits the sessions of tenants that have limits; nil: none has.
	Tenants *tenants.Gate
	// Revocations says which sessions are revoked; nil: none.
	Revocations Revocations
	// Tracer makes the traces of utterances; nil: there are none.
	Tracer *tracing.Tracer
}

// keep is how long the durable messages of a session are kept after the last of them.
func (c *Config) keep() time.Duration { return c.Resume + c.Wait + c.Job + c.Idle }

// renewInterval is how often the state of a session is saved at least, so that it does not expire while nothing changes.
func (c *Config) renewInterval() time.Duration { return c.keep() / 3 }

// resultTimeout is how long after its commit, or after the last resume, an utterance without a result is ended. Its job ends
// by itself before that, unless it waits for audio that does not arrive.
func (c *Config) resultTimeout() time.Duration { return c.Wait + c.Job + time.Second }

// resultSlack is how long it may take to end an utterance after its result timeout.
const resultSlack = 2 * time.Second

// limits returns the limits that are reported to a client.
func (c *Config) limits() wire.SessionLimits {
	return wire.SessionLimits{
		FrameBytes: wire.MaxFrame, UtteranceMS: c.MaxUtterance.Milliseconds(), BufferedMS: c.Ahead.Milliseconds(),
		ResumeMS: c.Resume.Milliseconds(), IdleMS: c.Idle.Milliseconds(), OpenUtterances: c.MaxUnanswered,
		FirstMessageMS: c.FirstMessage.Milliseconds(), PingIntervalMS: c.Ping.Milliseconds(),
		ResultTimeoutMS: (c.resultTimeout() + resultSlack).Milliseconds(), UtteranceRate: c.UtteranceRate,
	}
}

// settings are the settings of a session. They are saved with it, so that it can be resumed on another instance.
type settings struct {
	Langs        [2]core.Lang
	Src          core.Lang // of utterances that do not name theirs
	Format       wire.AudioFormat
	Pause        time.Duration
	MaxUtterance time.Duration
	Silence      float64
	Partials     bool
	TTS          bool
	Manual       bool // utterances end at the client's request, or at MaxUtterance
	Numbered     bool // binary frames begin with their sequence number
}

// segmentRules returns the rules by which utterances end.
func (s *settings) segmentRules() segmentRules {
	return segmentRules{auto: !s.Manual, pause: s.Pause, maxDuration: s.MaxUtterance, silence: s.Silence}
}

// direction returns the direction of an utterance in a source language, or in the session's when src is empty. It returns an
// error if the language is neither of the session's two.
func (s *settings) direction(src core.Lang) (core.Direction, *wire.Error) {
	switch cmp.Or(src, s.Src) {
	case s.Langs[0]:
		return core.Direction{Src: s.Langs[0], Tgt: s.Langs[1]}, nil
	case s.Langs[1]:
		return core.Direction{Src: s.Langs[1], Tgt: s.Langs[0]}, nil
	}
	return core.Direction{}, wire.Invalid("src_lang", "must be one of the session's languages, %s or %s", s.Langs[0], s.Langs[1])
}

// setSegmentation applies what a client requests of the segmentation.
func (s *settings) setSegmentation(c *Config, in *wire.SessionSegmentation) *wire.Error {
	switch {
	case in.PauseMS != 0 && (in.PauseMS < 100 || in.PauseMS > 10_000):
		return wire.Invalid("segmentation.pause_ms", "must be between 100 and 10000, not %d", in.PauseMS)
	case in.MaxUtteranceMS != 0 && (in.MaxUtteranceMS < 1_000 || in.MaxUtteranceMS > c.MaxUtterance.Milliseconds()):
		return wire.Invalid("segmentation.max_utterance_ms", "must be between 1000 and %d, not %d", c.MaxUtterance.Milliseconds(),
			in.MaxUtteranceMS)
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
		s.MaxUtterance = time.Duration(in.MaxUtteranceMS) * time.Millisecond
	}
	if in.SilenceLevel != 0 {
		s.Silence = in.SilenceLevel
	}
	return nil
}

// segmentation returns the segmentation as it is reported to the client.
func (s *settings) segmentation() wire.SessionSegmentation {
	mode := wire.SegmentAuto
	if s.Manual {
		mode = wire.SegmentManual
	}
	return wire.SessionSegmentation{Mode: mode, PauseMS: s.Pause.Milliseconds(), MaxUtteranceMS: s.MaxUtterance.Milliseconds(),
		SilenceLevel: s.Silence}
}

// audio returns the format of the session's audio as it is reported to the client.
func (s *settings) audio() wire.SessionAudio {
	framing := wire.FramingRaw
	if s.Numbered {
		framing = wire.FramingNumbered
	}
	return wire.SessionAudio{Encoding: s.Format.Encoding, SampleRate: s.Format.SampleRate, Channels: s.Format.Channels, Framing: framing}
}

// clip returns the audio of a committed utterance.
func (s *settings) clip(u *utterance) *audio.Clip {
	c := &audio.Clip{
		Format: s.Format, Data: make([]byte, 0, u.bytes), DurationMS: u.spec.Utterance.AudioMS, Partials: s.Partials, Speech: s.TTS,
	}
	for i := range u.frames {
		c.Data = append(c.Data, u.frames[i].data...)
		if s.Format.Encoding == wire.EncodingOpus {
			c.PacketEnds = append(c.PacketEnds, len(c.Data))
		}
	}
	return c
}

// optionSet holds the options with which utterances began. All utterances with the same options share it.
type optionSet struct{ core.Options }

const (
	// maxOptionBytes bounds the options of a session, and maxPendingOptionBytes those of all its pending utterances.
	maxOptionBytes        = 4 << 10
	maxPendingOptionBytes = 16 << 10
	// optionOverhead is the size of one name beside its bytes.
	optionOverhead = 4
)

// size is the approximate size of the options when they are saved.
func (o *optionSet) size() int {
	n := 0
	for _, option := range reflect.ValueOf(o.Options).Fields() {
		switch option = reflect.Indirect(option); option.Kind() {
		case reflect.String:
			n += option.Len()
		case reflect.Slice:
			for i := range option.Len() {
				n += option.Index(i).Len() + optionOverhead
			}
		}
	}
	return n
}

// setOptions sets the options of utterances that begin from now on.
func (s *Session) setOptions(o core.Options) *wire.Error {
	next := &optionSet{o}
	if n := next.size(); n > maxOptionBytes {
		return wire.Invalid("options", "the names in it take %d bytes together; at most %d", n, maxOptionBytes)
	}
	all := map[*optionSet]bool{next: true}
	for _, u := range s.outbox.pending {
		all[u.options] = true
	}
	if s.intake.open != nil {
		all[s.intake.open.options] = true
	}
	total := 0
	for set := range maps.Keys(all) {
		total += set.size()
	}
	if total > maxPendingOptionBytes {
		return wire.FieldErrorf(wire.RateLimited, "options",
			"the options of the utterances that wait for their results take more than %d bytes: wait for some of them",
			maxPendingOptionBytes)
	}
	s.options = next
	return nil
}
