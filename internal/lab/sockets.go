package lab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	// openers is how many sessions are opened at once.
	openers = 32
	// frameDuration is the duration of the audio in one frame.
	frameDuration = 100 * time.Millisecond
	// maxQueued bounds the utterances that wait for an earlier one of the same session to be spoken.
	maxQueued = 64
	// reopenTimeout bounds the start of a session in place of a lost one.
	reopenTimeout = 10 * time.Second
)

// socketDriver speaks utterances into sessions. Each session has a speaker.
type socketDriver struct {
	cfg      *LoadConfig
	run      string
	clock    clock
	apis     []*API
	http     *http.Client // of the sessions; nil: each has one of its own
	recorder *recorder
	frames   [][]byte // the audio of an utterance

	ctx      context.Context
	stop     context.CancelFunc // ends every session at once
	speakers []*speaker
	speaking sync.WaitGroup
}

// newSocketDriver opens the sessions.
func newSocketDriver(ctx context.Context, r *loadRun) (*socketDriver, error) {
	d := &socketDriver{cfg: &r.cfg, run: r.name, clock: r.clock, apis: r.apis, http: r.sockets, recorder: r.recorder}
	d.ctx, d.stop = context.WithCancel(context.WithoutCancel(ctx))
	for rest := r.cfg.Speech; rest > 0; rest -= frameDuration {
		d.frames = append(d.frames, Tone(min(rest, frameDuration)))
	}
	for i := range r.cfg.Sessions {
		d.speakers = append(d.speakers, &speaker{
			driver: d, number: i, pair: r.cfg.Pairs[i%len(r.cfg.Pairs)], queue: make(chan request, maxQueued),
			open: make(map[string]request),
		})
	}
	starting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	run.ForEach(openers, d.speakers, func(s *speaker) {
		if starting.Err() != nil {
			return
		}
		if err := s.start(starting); err != nil {
			cancel(err)
		}
	})
	if err := context.Cause(starting); err != nil {
		d.close()
		return nil, fmt.Errorf("open %d sessions: %w", r.cfg.Sessions, err)
	}
	if err := d.checkLimits(); err != nil {
		d.close()
		return nil, err
	}
	for _, s := range d.speakers {
		d.speaking.Go(s.run)
	}
	return d, nil
}

// checkLimits returns an error if the scheduler does not allow the rate with this number of sessions.
func (d *socketDriver) checkLimits() error {
	limits := d.speakers[0].session.Limits()
	if perSession := d.cfg.Rate / float64(d.cfg.Sessions); limits.UtteranceRate > 0 && perSession > float64(limits.UtteranceRate) {
		return fmt.Errorf("the scheduler allows %d utterances a second for each session, and %d sessions at %v a second need %.1f: use "+
			"more sessions",
			limits.UtteranceRate, d.cfg.Sessions, d.cfg.Rate, perSession)
	}
	if longest := time.Duration(limits.UtteranceMS) * time.Millisecond; longest > 0 && d.cfg.Speech > longest {
		return fmt.Errorf("the scheduler allows utterances of at most %v: use shorter ones", longest)
	}
	return nil
}

// lead implements driver: the audio of an utterance is sent before its end is due.
func (d *socketDriver) lead() time.Duration { return d.cfg.Speech }

// submit implements driver.
func (d *socketDriver) submit(q request) {
	s := d.speakers[q.number%len(d.speakers)]
	select {
	case s.queue <- q:
	default:
		d.recorder.fail(q, failure{code: codeNotSent,
			detail: fmt.Sprintf("%d utterances waited for earlier ones of their session to be spoken", maxQueued)})
	}
}

// wait implements driver: it ends the sessions when every utterance was spoken, and waits for their results.
func (d *socketDriver) wait(until time.Time) {
	expiry := time.AfterFunc(time.Until(until), d.stop)
	defer expiry.Stop()
	for _, s := range d.speakers {
		close(s.queue)
	}
	d.speaking.Wait()
}

// close implements driver.
func (d *socketDriver) close() {
	d.stop()
	for _, s := range d.speakers {
		s.receiving.Wait()
	}
}

// speaker speaks the utterances of one session, one after the other.
type speaker struct {
	driver *socketDriver
	number int
	pair   Pair
	queue  chan request
	starts int // used by the speaker's goroutine

	receiving sync.WaitGroup

	mu      sync.Mutex
	session *client.Session    // nil: it was lost
	open    map[string]request // the utterances without an outcome, by id
}

// start opens a session, in place of a lost one if there was one. The context bounds the start only.
func (s *speaker) start(ctx context.Context) error {
	d := s.driver
	s.starts++
	id := fmt.Sprintf("%s-s%d-%d", d.run, s.number, s.starts)
	sessionCtx, cancel := context.WithCancel(d.ctx)
	defer context.AfterFunc(ctx, cancel)()
	session, err := client.Start(sessionCtx, client.Config{
		URLs: d.cfg.URLs, TokenSource: d.tokenSource(id), HTTPClient: d.http, Log: slog.New(slog.DiscardHandler),
		Start: wire.SessionStart{
			SessionID: id, Langs: []string{s.pair.Src, s.pair.Tgt}, SrcLang: s.pair.Src,
			Segmentation: wire.SessionSegmentation{Mode: wire.SegmentManual},
		},
	})
	if err != nil {
		cancel()
		return err
	}
	s.mu.Lock()
	s.session = session
	s.mu.Unlock()
	s.receiving.Go(func() {
		defer cancel()
		s.receive(session)
	})
	return nil
}

// tokenSource returns a function that mints a token for one session, as the backend of an application does. A scheduler
// without a secret for tokens accepts the operator's key; one without keys needs no token.
func (d *socketDriver) tokenSource(session string) func(context.Context) (string, error) {
	if d.cfg.Token == "" {
		return nil
	}
	return func(ctx context.Context) (string, error) {
		var out wire.SessionTokenResponse
		err := d.apis[0].Post(ctx, "/v1/sessions", wire.SessionTokenRequest{SessionID: session}, &out)
		var refusal *wire.Error
		if errors.As(err, &refusal) && refusal.Code == wire.NotFound {
			return d.cfg.Token, nil
		}
		return out.Token, err
	}
}

// run speaks every utterance of the queue, ends the session and waits for its results.
func (s *speaker) run() {
	for q := range s.queue {
		if err := s.speak(q); err != nil {
			s.end(s.id(q), func(q request) { s.driver.recorder.fail(q, s.failureOf(err)) })
		}
	}
	if session := s.current(); session != nil {
		_ = session.End() // fails only if the session has ended
	}
	s.receiving.Wait()
}

func (s *speaker) current() *client.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.session
}

func (s *speaker) id(q request) string { return fmt.Sprintf("u%d", q.number) }

// speak sends the audio of an utterance in real time and ends it when it is due.
func (s *speaker) speak(q request) error {
	s.mu.Lock()
	s.open[s.id(q)] = q
	lost := s.session == nil
	s.mu.Unlock()
	if lost {
		ctx, cancel := context.WithTimeout(s.driver.ctx, reopenTimeout)
		defer cancel()
		if err := s.start(ctx); err != nil {
			return err
		}
	}
	session := s.current()
	if session == nil {
		return client.ErrClosed
	}
	if err := session.Begin(wire.UtteranceStart{UtteranceID: s.id(q)}); err != nil {
		return err
	}
	for i, frame := range s.driver.frames {
		left := len(s.driver.frames) - 1 - i
		if !sleepUntil(s.driver.ctx, q.due.Add(-time.Duration(left)*frameDuration)) {
			return context.DeadlineExceeded
		}
		if _, err := session.Write(frame); err != nil {
			return err
		}
	}
	s.driver.recorder.send(q, time.Now())
	return session.Commit()
}

// end removes an utterance that has an outcome and calls fn with it. It does nothing if it had one before.
func (s *speaker) end(id string, fn func(request)) {
	s.mu.Lock()
	q, ok := s.open[id]
	delete(s.open, id)
	s.mu.Unlock()
	if ok {
		fn(q)
	}
}

// receive records the events of a session until it is over. Utterances that have no outcome then have failed.
func (s *speaker) receive(session *client.Session) {
	rec := s.driver.recorder
	without := failure{code: codeSessionLost, detail: "the session ended without an outcome"}
	for e, err := range session.Events() {
		if err != nil {
			without = s.sessionLost(err)
			break
		}
		switch e := e.(type) {
		case client.Result:
			received := time.Now()
			s.end(e.UtteranceID, func(q request) { s.finish(q, &e, received) })
		case client.UtteranceFailed:
			s.end(e.UtteranceID, func(q request) { rec.fail(q, utteranceFailure(&e)) })
		case client.Warning:
			rec.warn(e.Code, e.Detail)
		case client.SessionResumed:
			rec.update(func(r *recorder) { r.resumed++ })
		}
	}
	_ = session.Close()
	s.abandon(session, without)
}

// utteranceFailure returns why an utterance has no result.
func utteranceFailure(e *client.UtteranceFailed) failure {
	f := failure{code: string(e.Err.Code), reason: e.Reason, detail: e.Err.Detail}
	if f.reason == f.code {
		f.reason = "" // many reasons are codes
	}
	return f
}

// failureOf classifies the error of an utterance. When the time for results is over, the sessions are closed.
func (s *speaker) failureOf(err error) failure {
	if s.driver.ctx.Err() != nil {
		return failure{code: codeTimeout, detail: "no outcome in time"}
	}
	return failureOf(err)
}

// sessionLost returns why the utterances of a session that ended with an error have no outcome.
func (s *speaker) sessionLost(err error) failure {
	cause := s.failureOf(err)
	if cause.code == codeTimeout {
		return cause
	}
	s.driver.recorder.update(func(r *recorder) { r.lost++ })
	return failure{code: codeSessionLost, reason: cause.code, detail: cause.detail}
}

// abandon fails every open utterance of a session that is over.
func (s *speaker) abandon(session *client.Session, f failure) {
	s.mu.Lock()
	if s.session == session {
		s.session = nil
	}
	open := s.open
	s.open = make(map[string]request)
	s.mu.Unlock()
	for _, q := range open {
		s.driver.recorder.fail(q, f)
	}
}

// finish records the result of an utterance.
func (s *speaker) finish(q request, e *client.Result, received time.Time) {
	d := s.driver
	result := newSample()
	result[whole] = received.Sub(q.due)
	if result[whole] > d.cfg.Timeout {
		d.recorder.fail(q, failure{code: codeTimeout, detail: "the result came too late"})
		return
	}
	result[wait] = time.Duration(e.Latency.WaitMS) * time.Millisecond
	result[dispatch] = time.Duration(e.Latency.WaitMS+e.Latency.DispatchMS) * time.Millisecond
	if assigned, ok := d.clock.assignedAt(e.Result); ok {
		result[dispatch] = assigned.Sub(q.due)
		result[overhead] = result[whole] - WorkTime(e.Result)
	}
	d.recorder.finish(q, result)
}
