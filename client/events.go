package client

import (
	"context"
	"sync"

	"github.com/lingua-scheduler/lingua/wire"
)

// Event is an event of a session: UtteranceCommitted, UtteranceWaiting, PartialResult, Result, UtteranceFailed, SpeechChunk, Warning,
// Reconnecting, SessionResumed or SessionEnded.
type Event interface {
	event()
}

// UtteranceCommitted reports that an utterance has ended and became a job.
type UtteranceCommitted wire.UtteranceCommitted

// UtteranceWaiting reports that an utterance waits for a node with a free slot.
type UtteranceWaiting wire.SessionWaiting

// PartialResult is a partial result of an utterance. It replaces the previous one.
type PartialResult wire.SessionPartial

// Result is the result of an utterance. Results and failures arrive in the order of the utterances. If speech follows,
// TTSAudio is its format.
type Result wire.SessionResult

// UtteranceFailed reports an utterance that ended without a result.
type UtteranceFailed struct {
	Seq            int64
	UtteranceIndex int64
	UtteranceID    string
	RequestID      string
	Continues      *int64 // the index of the utterance that this one continues; nil: none
	FirstSeq       int64  // its first audio frame
	LastSeq        int64  // its last audio frame
	JobID          string
	Reason         string      // for which the job ended, such as CANCELLED
	Err            *wire.Error // the error, with advice
}

// SpeechChunk is a chunk of speech, which follows the Result that announced it. For opus, a chunk is one packet. Chunks may
// be missing after SessionResumed.
type SpeechChunk struct {
	JobID     string
	AttemptID int
	Chunk     int              // the number of the chunk, from 0
	Last      bool             // no chunk follows
	Format    wire.AudioFormat // of the speech, with the defaults filled in
	Audio     []byte
}

// Warning reports that the scheduler ignored a message or a part of it.
type Warning struct {
	Code    string
	Detail  string
	ReplyTo string // the type of the message that it answers; empty: none
}

// Reconnecting reports that the connection is lost and will be replaced. Write continues to accept audio.
type Reconnecting struct {
	Err error // a *ConnectionError, or a request of the scheduler to reconnect
}

// SessionResumed reports that the session continues over a new connection.
type SessionResumed struct {
	Recovered    bool  // false: some results or failures are lost
	ResentFrames int64 // audio frames that are sent a second time
}

// SessionEnded is the last event of a session that was ended with End. It has the totals.
type SessionEnded wire.SessionEnded

func (UtteranceCommitted) event() {}
func (UtteranceWaiting) event()   {}
func (PartialResult) event()      {}
func (Result) event()             {}
func (UtteranceFailed) event()    {}
func (SpeechChunk) event()        {}
func (Warning) event()            {}
func (Reconnecting) event()       {}
func (SessionResumed) event()     {}
func (SessionEnded) event()       {}

const (
	// maxEventBytes limits the events that are not read, by the size of their messages.
	maxEventBytes = 8 << 20
	// eventOverhead is the memory of an event beside its message.
	eventOverhead = 256
)

// eventQueue holds events until they are read. One goroutine puts events, any number takes them.
type eventQueue struct {
	available chan struct{} // of capacity 1: there may be an event
	freed     chan struct{} // of capacity 1: there may be space
	ended     chan struct{}

	mu     sync.Mutex
	events []Event
	sizes  []int
	size   int
	err    error
}

func newEventQueue() *eventQueue {
	return &eventQueue{available: make(chan struct{}, 1), freed: make(chan struct{}, 1), ended: make(chan struct{})}
}

// put appends an event, with the size of its message. It waits for space, and returns false if ctx ended first.
func (q *eventQueue) put(ctx context.Context, e Event, size int) bool {
	for {
		q.mu.Lock()
		if q.size < maxEventBytes {
			q.events, q.sizes = append(q.events, e), append(q.sizes, size+eventOverhead)
			q.size += size + eventOverhead
			q.mu.Unlock()
			signal(q.available)
			return true
		}
		q.mu.Unlock()
		select {
		case <-q.freed:
		case <-ctx.Done():
			return false
		}
	}
}

// end ends the queue with an error, or nil.
func (q *eventQueue) end(err error) {
	q.mu.Lock()
	q.err = err
	q.mu.Unlock()
	close(q.ended)
}

// take waits for the next event. After the last one it returns nil and the error of the queue.
func (q *eventQueue) take() (Event, error) {
	for {
		if e, more := q.pop(); e != nil {
			signal(q.freed)
			if more {
				signal(q.available) // for another reader
			}
			return e, nil
		}
		select {
		case <-q.available:
		case <-q.ended:
			if e, _ := q.pop(); e != nil { // it was put after the pop above
				return e, nil
			}
			return nil, q.err
		}
	}
}

func (q *eventQueue) pop() (e Event, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.events) == 0 {
		return nil, false
	}
	e = q.events[0]
	q.events[0] = nil
	q.size -= q.sizes[0]
	q.events, q.sizes = q.events[1:], q.sizes[1:]
	return e, len(q.events) > 0
}
