package client

import (
	"context"
	"slices"

	"github.com/lingua-scheduler/lingua/wire"
)

// maxTracked limits how many unfinished utterances are tracked. The scheduler allows far fewer.
const maxTracked = 4096

// partialRevision is the attempt and the revision of a partial result.
type partialRevision struct {
	attempt int
	rev     int64
}

// receiver turns the messages of the scheduler into events, each once, and releases audio of finished utterances. The
// session's goroutine uses it.
type receiver struct {
	ctx    context.Context // of the session
	events *eventQueue
	sender *sender

	lastSeq       int64                     // of the last durable message
	finishedIndex int64                     // the last utterance with a terminal message; -1: none
	firstFrames   map[int64]int64           // the first audio frame of committed utterances that are not finished, by index
	partials      map[int64]partialRevision // the last partial result of unfinished utterances, by index
	speech        speechTracker
}

func newReceiver(ctx context.Context, events *eventQueue, s *sender) *receiver {
	return &receiver{
		ctx: ctx, events: events, sender: s, finishedIndex: -1,
		firstFrames: make(map[int64]int64), partials: make(map[int64]partialRevision),
	}
}

// handle handles a message. It returns errSessionEnded after the last one.
func (r *receiver) handle(conn *connection, kind wire.FrameType, body []byte) error {
	switch kind {
	case "":
		return r.handleSpeech(body)
	case wire.UtteranceCommitted{}.Type():
		return decode(body, func(c *wire.UtteranceCommitted) error { return r.handleCommitted(c, len(body)) })
	case wire.SessionWaiting{}.Type():
		return decode(body, func(w *wire.SessionWaiting) error {
			if w.UtteranceIndex <= r.finishedIndex {
				return nil
			}
			return r.emit(UtteranceWaiting(*w), len(body))
		})
	case wire.SessionPartial{}.Type():
		return decode(body, func(p *wire.SessionPartial) error { return r.handlePartial(p, len(body)) })
	case wire.SessionResult{}.Type():
		return decode(body, func(res *wire.SessionResult) error { return r.handleResult(res, len(body)) })
	case wire.ErrorFrame{}.Type():
		return decode(body, func(e *wire.ErrorFrame) error { return r.handleError(conn, e, len(body)) })
	case wire.Warning{}.Type():
		return decode(body, func(w *wire.Warning) error {
			if w.Code == wire.TokenExpired {
				r.sender.renewToken()
			}
			return r.emit(Warning{Code: string(w.Code), Detail: w.Detail}, len(body))
		})
	case wire.GoAway{}.Type():
		return decode(body, func(g *wire.GoAway) error { conn.goAway(g); return nil })
	case wire.SessionEnded{}.Type():
		return decode(body, func(e *wire.SessionEnded) error {
			if err := r.emit(SessionEnded(*e), len(body)); err != nil {
				return err
			}
			return errSessionEnded
		})
	}
	return nil // audio_ack is not needed, and an unknown type is of a newer protocol
}

// decode decodes a message and passes it on.
func decode[T any](body []byte, then func(*T) error) error {
	v := new(T)
	if err := wire.Decode(body, v); err != nil {
		return invalidMessage(err)
	}
	return then(v)
}

// emit appends an event to the queue. It waits for space.
func (r *receiver) emit(e Event, size int) error {
	if !r.events.put(r.ctx, e, size) {
		return context.Cause(r.ctx)
	}
	return nil
}

func (r *receiver) handleCommitted(c *wire.UtteranceCommitted, size int) error {
	if _, known := r.firstFrames[c.UtteranceIndex]; known || c.UtteranceIndex <= r.finishedIndex {
		return nil
	}
	if c.UtteranceIndex == r.finishedIndex+1 {
		r.sender.release(c.FirstSeq - 1)
	}
	if len(r.firstFrames) < maxTracked {
		r.firstFrames[c.UtteranceIndex] = c.FirstSeq
	}
	return r.emit(UtteranceCommitted(*c), size)
}

func (r *receiver) handlePartial(p *wire.SessionPartial, size int) error {
	last, known := r.partials[p.UtteranceIndex]
	isNewer := p.AttemptID > last.attempt || p.AttemptID == last.attempt && p.Rev > last.rev
	if p.UtteranceIndex <= r.finishedIndex || known && !isNewer || !known && len(r.partials) >= maxTracked {
		return nil
	}
	r.partials[p.UtteranceIndex] = partialRevision{attempt: p.AttemptID, rev: p.Rev}
	return r.emit(PartialResult(*p), size)
}

func (r *receiver) handleResult(res *wire.SessionResult, size int) error {
	if !r.acceptTerminal(res.Seq, res.UtteranceIndex, res.LastSeq) {
		return nil
	}
	r.speech.announce(res)
	if err := r.emit(Result(*res), size); err != nil {
		return err
	}
	r.sender.acknowledge(res.Seq)
	return nil
}

func (r *receiver) handleError(conn *connection, e *wire.ErrorFrame, size int) error {
	switch {
	case e.UtteranceIndex != nil:
		if !r.acceptTerminal(e.Seq, *e.UtteranceIndex, e.LastSeq) {
			return nil
		}
		if err := r.emit(UtteranceFailed{
			Seq: e.Seq, UtteranceIndex: *e.UtteranceIndex, UtteranceID: e.UtteranceID, RequestID: e.RequestID,
			Continues: e.Continues, FirstSeq: e.FirstSeq, LastSeq: e.LastSeq, JobID: e.JobID, Reason: e.Reason, Err: &e.Error,
		}, size); err != nil {
			return err
		}
		r.sender.acknowledge(e.Seq)
		return nil
	case e.Fatal:
		conn.reported.Store(e) // the close follows
		return nil
	}
	return r.emit(Warning{Code: string(e.Code), Detail: e.Detail, ReplyTo: e.ReplyTo}, size)
}

// acceptTerminal reports whether a durable message arrives for the first time and is the first terminal message of its
// utterance. It then finishes the utterance.
func (r *receiver) acceptTerminal(seq, index, lastFrame int64) bool {
	if seq <= r.lastSeq {
		return false
	}
	r.lastSeq = seq
	if index <= r.finishedIndex {
		return false
	}
	r.finish(index, lastFrame)
	return true
}

// finish releases the audio of an utterance and of all earlier ones: terminal messages arrive in order.
func (r *receiver) finish(index, lastFrame int64) {
	r.finishedIndex = max(r.finishedIndex, index)
	r.sender.release(lastFrame)
	if next, known := r.firstFrames[index+1]; known {
		r.sender.release(next - 1)
	}
	for i := range r.firstFrames {
		if i <= index {
			delete(r.firstFrames, i)
		}
	}
	for i := range r.partials {
		if i <= index {
			delete(r.partials, i)
		}
	}
}

// handleSpeech emits a chunk of speech. After a resumption the scheduler may repeat chunks, which are dropped.
func (r *receiver) handleSpeech(body []byte) error {
	header, audio, err := wire.ReadBinary(body)
	if err != nil {
		return invalidMessage(err)
	}
	if header.Kind != wire.KindTTS {
		return nil
	}
	format, isNew := r.speech.accept(&header)
	if !isNew {
		return nil
	}
	return r.emit(SpeechChunk{
		JobID: header.JobID, AttemptID: header.AttemptID, Chunk: header.Chunk, Last: header.Last, Format: format, Audio: audio,
	}, len(body))
}

// maxTrackedSpeech is the number of jobs whose speech is tracked: more than are sent at once, and more than a resumption may
// repeat.
const maxTrackedSpeech = 64

// speechTracker knows which chunks of the latest speech were received.
type speechTracker []trackedSpeech

// trackedSpeech is the speech of one job.
type trackedSpeech struct {
	jobID     string
	attempt   int
	nextChunk int
	format    wire.AudioFormat
}

// track returns the entry of a job, and adds it if there is none, in place of the oldest one at the limit. A higher attempt
// starts anew.
func (t *speechTracker) track(jobID string, attempt int) *trackedSpeech {
	i := slices.IndexFunc(*t, func(s trackedSpeech) bool { return s.jobID == jobID })
	if i < 0 {
		if len(*t) == maxTrackedSpeech {
			*t = slices.Delete(*t, 0, 1)
		}
		*t = append(*t, trackedSpeech{jobID: jobID, attempt: attempt, format: wire.AudioFormat{}.OrDefault()})
		i = len(*t) - 1
	}
	s := &(*t)[i]
	if attempt > s.attempt {
		*s = trackedSpeech{jobID: jobID, attempt: attempt, format: wire.AudioFormat{}.OrDefault()}
	}
	return s
}

// announce records the format of speech that follows a result, because its first chunk may be lost.
func (t *speechTracker) announce(r *wire.SessionResult) {
	if r.TTSAudio == nil {
		return
	}
	if s := t.track(r.JobID, r.AttemptID); s.attempt == r.AttemptID && s.nextChunk == 0 {
		s.format = r.TTSAudio.OrDefault()
	}
}

// accept reports whether a chunk arrives for the first time, and returns the format of the speech. A chunk of a lower
// attempt is not accepted.
func (t *speechTracker) accept(h *wire.BinaryHeader) (wire.AudioFormat, bool) {
	s := t.track(h.JobID, h.AttemptID)
	if h.AttemptID < s.attempt || h.Chunk < s.nextChunk {
		return s.format, false
	}
	if h.Chunk == 0 && h.Audio != nil {
		s.format = h.Audio.OrDefault()
	}
	s.nextChunk = h.Chunk + 1
	return s.format, true
}
