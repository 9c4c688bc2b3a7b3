package clustertest

import (
	"context"
	crand "crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/test/clustertest/journal"
	"github.com/lingua-scheduler/lingua/wire"
)

// SampleRate is the sample rate of the audio of all sessions.
const SampleRate = 8_000

const (
	frameDuration = 100 * time.Millisecond
	// maxPause is the pause that ends an utterance. A lost connection is a pause too, so it has the largest value that is
	// allowed: otherwise faults would split utterances.
	maxPause = 10 * time.Second
)

// Tone returns 100 ms of a tone, as 16-bit samples.
func Tone(sampleRate int) []byte {
	pcm := make([]byte, 2*sampleRate/10)
	for i := range len(pcm) / 2 {
		v := int16(8000 * math.Sin(float64(i)/5))
		pcm[2*i], pcm[2*i+1] = byte(v), byte(v>>8)
	}
	return pcm
}

var sessionTone = Tone(SampleRate)

// runSessions sends utterances over many sessions until the context ends, and returns when all sessions have received their
// terminal messages.
func runSessions(ctx context.Context, cfg DriverConfig, j *journal.Writer, ready func()) error {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	startLimit := make(chan struct{}, 32) // limits how many sessions are started at once
	return runAll(cfg.Count, ready, func(i int, isReady func()) error {
		d := &sessionDriver{name: fmt.Sprintf("%s-%d", cfg.Name, i), config: cfg, journal: j, transport: transport,
			rand: rand.New(rand.NewPCG(cfg.Seed, uint64(i))), tts: i%2 == 0, onReady: isReady}
		for n := 0; ctx.Err() == nil; n++ {
			d.runSession(ctx, fmt.Sprintf("%s.%d", d.name, n), startLimit)
		}
		return nil
	})
}

// sessionDriver sends utterances over one session, and starts another if the session is lost.
type sessionDriver struct {
	name      string
	config    DriverConfig
	journal   *journal.Writer
	transport http.RoundTripper
	rand      *rand.Rand
	onReady   func()
	tts       bool // the session asks for speech
	speech    speechVerifier
}

// runSession runs one session to its end.
func (d *sessionDriver) runSession(ctx context.Context, id string, startLimit chan struct{}) {
	s := d.startSession(ctx, id, startLimit)
	if s == nil {
		return
	}
	id = s.ID()
	d.onReady()
	var sender sync.WaitGroup
	defer sender.Wait()
	sending, stop := context.WithCancel(ctx)
	defer stop()
	sender.Go(func() {
		if err := d.sendUtterances(sending, s, id); err != nil {
			return // the event loop below records the error
		}
		_ = s.End()
	})
	for e, err := range s.Events() {
		if err != nil {
			d.journal.Add(journal.Entry{Source: id, Kind: journal.SessionLost, Code: err.Error()})
			break
		}
		d.recordEvent(id, e)
	}
	_ = s.Close()
}

// startSession starts a session. It repeats the start until an instance answers.
func (d *sessionDriver) startSession(ctx context.Context, id string, startLimit chan struct{}) *client.Session {
	startLimit <- struct{}{}
	defer func() { <-startLimit }()
	token := crand.Text()
	for ctx.Err() == nil {
		// A repeated start is the same as the first, whose answer may have been lost.
		s, err := client.Start(context.WithoutCancel(ctx), client.Config{
			Log:        slog.New(slog.DiscardHandler),
			URL:        d.config.URL,
			HTTPClient: &http.Client{Transport: d.recorder(id)},
			Start: wire.SessionStart{
				SessionID: id, ResumeToken: token, Langs: []string{"en", "es"}, Audio: wire.SessionAudio{SampleRate: SampleRate},
				Partials: true, TTS: d.tts,
				Segmentation: wire.SessionSegmentation{PauseMS: maxPause.Milliseconds()},
			},
		})
		if err == nil {
			d.journal.Add(journal.Entry{Source: id, Kind: journal.SessionStarted, Speech: d.tts})
			return s
		}
		run.SleepJitter(ctx, 200*time.Millisecond, 0.5)
	}
	return nil
}

// recorder returns the recorder for the connections of a session.
func (d *sessionDriver) recorder(id string) *frameRecorder {
	return &frameRecorder{
		transport: d.transport,
		onConnect: func(conn int, from string) {
			d.journal.Add(journal.Entry{Source: id, Kind: journal.Connected, Conn: conn, Code: from})
		},
		onText: func(conn int, sent bool, text []byte) { d.recordFrame(id, conn, sent, text) },
	}
}

// sendUtterances sends utterances in real time until the context ends.
func (d *sessionDriver) sendUtterances(ctx context.Context, s *client.Session, id string) error {
	if !run.Sleep(ctx, time.Duration(d.rand.Int64N(int64(d.config.Interval)))) {
		return nil
	}
	for n := 0; ; n++ {
		request := fmt.Sprintf("%s.%d", id, n)
		if err := s.Begin(wire.UtteranceStart{RequestID: request}); err != nil {
			return err
		}
		size := int64(0)
		for range 3 + d.rand.IntN(4) {
			wrote, err := s.Write(sessionTone)
			if size += int64(wrote); err != nil {
				return err
			}
			run.Sleep(context.WithoutCancel(ctx), frameDuration)
		}
		at := journal.Now()
		if err := s.Commit(); err != nil {
			return err
		}
		d.journal.Add(journal.Entry{At: at, Source: id, Kind: journal.UtteranceSent, Request: request, Bytes: size})
		if !run.SleepJitter(ctx, max(d.config.Interval-450*time.Millisecond, 50*time.Millisecond), 0.5) {
			return nil
		}
	}
}

// recordEvent adds an event of the client to the journal.
func (d *sessionDriver) recordEvent(id string, event client.Event) {
	e := journal.Entry{Source: id}
	switch v := event.(type) {
	case client.UtteranceCommitted:
		e.Kind, e.Request, e.Index, e.Job = journal.UtteranceCommitted, v.RequestID, v.UtteranceIndex, v.JobID
	case client.PartialResult:
		e.Kind, e.Index, e.Job, e.Attempt = journal.PartialReceived, v.UtteranceIndex, v.JobID, v.AttemptID
	case client.Result:
		e.Kind, e.OK, e.Request, e.Index, e.Seq, e.Job, e.Attempt = journal.Terminal, true, v.RequestID, v.UtteranceIndex, v.Seq, v.JobID,
			v.AttemptID
		setOrigin(&e, v.TextTgt)
		e.Speech = v.TTS == "follows"
	case client.SpeechChunk:
		e.Kind, e.Job, e.Attempt, e.Index, e.Bytes, e.OK = journal.SpeechReceived, v.JobID, v.AttemptID, int64(v.Chunk),
			int64(len(v.Audio)), v.Last
		e.Code = d.speech.verify(attemptKey{v.JobID, v.AttemptID}, v.Chunk, v.Audio)
	case client.UtteranceFailed:
		e.Kind, e.Request, e.Index, e.Seq, e.Job = journal.Terminal, v.RequestID, v.UtteranceIndex, v.Seq, v.JobID
		if e.Code = string(v.Err.Code); v.Reason != "" && v.Reason != e.Code {
			e.Code += "/" + v.Reason
		}
	case client.Reconnecting:
		e.Kind, e.Code = journal.Reconnecting, v.Err.Error()
	case client.SessionResumed:
		e.Kind, e.Recovered, e.Bytes = journal.Resumed, v.Recovered, v.ResentFrames
	case client.SessionEnded:
		e.Kind, e.Index = journal.SessionEnded, v.Utterances
	default:
		return
	}
	d.journal.Add(e)
}

// recordFrame adds messages to the journal that the client package hides: repeated ones, and where a session continues
// after a gap.
func (d *sessionDriver) recordFrame(id string, conn int, sent bool, text []byte) {
	kind, err := wire.TypeOf(text)
	if err != nil {
		return
	}
	var m struct {
		Seq       int64  `json:"seq"`
		Last      int64  `json:"last_seq"`
		Index     *int64 `json:"utterance_index"`
		Recovered bool   `json:"recovered"`
		Job       string `json:"job_id"`
		First     int64  `json:"first_seq"`
	}
	switch kind {
	case wire.SessionResume{}.Type(), wire.SessionResumed{}.Type(), wire.UtteranceCommitted{}.Type(), wire.SessionResult{}.Type(),
		wire.ErrorFrame{}.Type():
		if json.Unmarshal(text, &m) != nil {
			return
		}
	default:
		return
	}
	switch {
	case sent:
		d.journal.Add(journal.Entry{Source: id, Kind: journal.ResumeSent, Conn: conn, Seq: m.Last})
	case kind == wire.SessionResumed{}.Type():
		if !m.Recovered {
			d.journal.Add(journal.Entry{Source: id, Kind: journal.GapReceived, Conn: conn, Seq: m.Last})
		}
	case kind == wire.UtteranceCommitted{}.Type() && m.Index != nil:
		d.journal.Add(journal.Entry{Source: id, Kind: journal.CommitReceived, Conn: conn, Index: *m.Index, Job: m.Job, Seq: m.First,
			Bytes: m.Last})
	case m.Index != nil:
		d.journal.Add(journal.Entry{Source: id, Kind: journal.DurableReceived, Conn: conn, Seq: m.Seq, Index: *m.Index})
	}
}
