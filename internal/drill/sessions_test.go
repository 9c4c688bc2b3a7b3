package drill

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
	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	rate  = 8_000 // of the sound, in samples a second
	frame = 100 * time.Millisecond
	// longestPause is how long nothing may be heard in the middle of an utterance before it is taken for its end. A
	// connection that is lost is a pause too, so it is as long as it may be, or faults would cut utterances in two.
	longestPause = 10 * time.Second
)

// tone is one frame of sound.
var tone = func() []byte {
	pcm := make([]byte, 2*rate/10)
	for i := range len(pcm) / 2 {
		v := int16(8000 * math.Sin(float64(i)/5))
		pcm[2*i], pcm[2*i+1] = byte(v), byte(v>>8)
	}
	return pcm
}()

// driveSessions has people speak until the context ends, and returns when all of them have heard everything.
func driveSessions(speaking context.Context, o orders, j *journal, ready func()) error {
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	var all, there sync.WaitGroup
	there.Add(o.Count)
	go func() {
		there.Wait()
		ready()
	}()
	gate := make(chan struct{}, 32) // so many sessions are started at once
	for i := range o.Count {
		p := &person{name: fmt.Sprintf("%s-%d", o.Name, i), o: o, j: j, base: base, dice: rand.New(rand.NewPCG(o.Seed, uint64(i)))}
		p.tts = i%2 == 0
		p.there = sync.OnceFunc(there.Done)
		all.Go(func() {
			defer p.there()
			for n := 0; speaking.Err() == nil; n++ {
				p.converse(speaking, fmt.Sprintf("%s.%d", p.name, n), gate)
			}
		})
	}
	all.Wait()
	return nil
}

// person speaks into one session after the other, if they are lost.
type person struct {
	name  string
	o     orders
	j     *journal
	base  http.RoundTripper
	dice  *rand.Rand
	there func()
	tts   bool // it wants to hear its results
	ear   listener
}

// converse holds one session.
func (p *person) converse(speaking context.Context, id string, gate chan struct{}) {
	s := p.start(speaking, id, gate)
	if s == nil {
		return
	}
	id = s.ID()
	p.there()
	var speaker sync.WaitGroup
	defer speaker.Wait()
	hush, leave := context.WithCancel(speaking)
	defer leave()
	speaker.Go(func() {
		if err := p.speak(hush, s, id); err != nil {
			return // the events say why
		}
		_ = s.End()
	})
	for e, err := range s.Events() {
		if err != nil {
			p.j.note(entry{Who: id, What: lost, Code: err.Error()})
			break
		}
		p.heard(id, e)
	}
	_ = s.Close()
}

// start begins a session. A scheduler that does not answer is asked again.
func (p *person) start(speaking context.Context, id string, gate chan struct{}) *client.Session {
	gate <- struct{}{}
	defer func() { <-gate }()
	token := crand.Text()
	for speaking.Err() == nil {
		s, err := client.Start(context.WithoutCancel(speaking), client.Config{ // the same again: the answer may have been lost
			URL:        p.o.URL,
			HTTPClient: &http.Client{Transport: p.tap(id)},
			Log:        slog.New(slog.DiscardHandler),
			Start: wire.SessionStart{
				SessionID: id, ResumeToken: token, Langs: []string{"en", "es"}, Audio: wire.SessionAudio{SampleRate: rate}, Partials: true, TTS: p.tts,
				Segmentation: wire.SessionSegmentation{PauseMS: longestPause.Milliseconds()},
			},
		})
		if err == nil {
			p.j.note(entry{Who: id, What: started, Speech: p.tts})
			return s
		}
		backoff.SleepJitter(speaking, 200*time.Millisecond, 0.5)
	}
	return nil
}

// tap listens in on a session.
func (p *person) tap(id string) *tap {
	return &tap{
		base: p.base,
		made: func(conn int, from string) { p.j.note(entry{Who: id, What: connected, Conn: conn, Code: from}) },
		hear: func(conn int, sent bool, text []byte) { p.wire(id, conn, sent, text) },
	}
}

// speak says something now and then, in real time, until the context ends.
func (p *person) speak(hush context.Context, s *client.Session, id string) error {
	if !backoff.Sleep(hush, time.Duration(p.dice.Int64N(int64(p.o.Every)))) {
		return nil
	}
	for n := 0; ; n++ {
		request := fmt.Sprintf("%s.%d", id, n)
		if err := s.Begin(wire.UtteranceStart{RequestID: request}); err != nil {
			return err
		}
		size := int64(0)
		for range 3 + p.dice.IntN(4) {
			wrote, err := s.Write(tone)
			if size += int64(wrote); err != nil {
				return err
			}
			backoff.Sleep(context.WithoutCancel(hush), frame)
		}
		at := now()
		if err := s.Commit(); err != nil {
			return err
		}
		p.j.note(entry{At: at, Who: id, What: said, Request: request, Bytes: size})
		if !backoff.SleepJitter(hush, max(p.o.Every-450*time.Millisecond, 50*time.Millisecond), 0.5) {
			return nil
		}
	}
}

// heard notes an event.
func (p *person) heard(id string, event client.Event) {
	e := entry{Who: id}
	switch v := event.(type) {
	case client.UtteranceCommitted:
		e.What, e.Request, e.Index, e.Job = committed, v.RequestID, v.UtteranceIndex, v.JobID
	case client.PartialResult:
		e.What, e.Index, e.Job, e.Attempt = shown, v.UtteranceIndex, v.JobID, v.AttemptID
	case client.Result:
		e.What, e.OK, e.Request, e.Index, e.Seq, e.Job, e.Attempt = terminal, true, v.RequestID, v.UtteranceIndex, v.Seq, v.JobID, v.AttemptID
		e.credit(v.TextTgt)
		e.Speech = v.TTS == "follows"
	case client.SpeechChunk:
		e.What, e.Job, e.Attempt, e.Index, e.Bytes, e.OK = spoke, v.JobID, v.AttemptID, int64(v.Chunk), int64(len(v.Audio)), v.Last
		e.Code = p.ear.hear(attempt{v.JobID, v.AttemptID}, v.Chunk, v.Audio)
	case client.UtteranceFailed:
		e.What, e.Request, e.Index, e.Seq, e.Job = terminal, v.RequestID, v.UtteranceIndex, v.Seq, v.JobID
		if e.Code = string(v.Err.Code); v.Reason != "" && v.Reason != e.Code {
			e.Code += "/" + v.Reason
		}
	case client.Reconnecting:
		e.What, e.Code = reconnecting, v.Err.Error()
	case client.SessionResumed:
		e.What, e.Recovered, e.Bytes = resumed, v.Recovered, v.ResentFrames
	case client.SessionEnded:
		e.What, e.Index = over, v.Utterances
	default:
		return
	}
	p.j.note(e)
}

// wire notes what the package would forgive: messages that come twice, and where a session that has a gap goes on.
func (p *person) wire(id string, conn int, sent bool, text []byte) {
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
	case wire.SessionResume{}.Type(), wire.SessionResumed{}.Type(), wire.UtteranceCommitted{}.Type(), wire.SessionResult{}.Type(), wire.ErrorFrame{}.Type():
		if json.Unmarshal(text, &m) != nil {
			return
		}
	default:
		return
	}
	switch {
	case sent:
		p.j.note(entry{Who: id, What: asked, Conn: conn, Seq: m.Last})
	case kind == wire.SessionResumed{}.Type():
		if !m.Recovered {
			p.j.note(entry{Who: id, What: rewound, Conn: conn, Seq: m.Last})
		}
	case kind == wire.UtteranceCommitted{}.Type() && m.Index != nil:
		p.j.note(entry{Who: id, What: told, Conn: conn, Index: *m.Index, Job: m.Job, Seq: m.First, Bytes: m.Last})
	case m.Index != nil:
		p.j.note(entry{Who: id, What: wired, Conn: conn, Seq: m.Seq, Index: *m.Index})
	}
}
