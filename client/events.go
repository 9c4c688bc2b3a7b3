package client

import "github.com/lingua-scheduler/lingua/wire"

// Event is one of the types of this file.
type Event interface {
	event()
}

// Committed says that an utterance has ended and became a job.
type UtteranceCommitted wire.UtteranceCommitted

// Partial is what there is so far of an utterance. It replaces the one before it.
type PartialResult wire.SessionPartial

// Result is how an utterance ended well. Results and failures come in the order of the utterances. If its speech follows,
// TTSAudio is the format of it.
type Result wire.SessionResult

// Failed is how an utterance ended otherwise.
type UtteranceFailed struct {
	Seq            int64
	UtteranceIndex int64
	UtteranceID    string
	RequestID      string
	Continues      *int64 // the index of the utterance of which it is a further part; nil: none
	JobID          string
	Reason         string      // why its job ended, as CANCELLED
	Err            *wire.Error // what was wrong, and what to do
}

// Speech is a piece of a spoken result, which follows the Result that announced it. Of opus, a piece is one packet. Pieces may
// be missing after a Resumed.
type SpeechChunk struct {
	JobID     string
	AttemptID int
	Chunk     int              // counts from 0
	Last      bool             // no further piece comes
	Format    wire.AudioFormat // of the spoken result, with the defaults filled in
	Audio     []byte
}

// Warning says that the scheduler left something aside.
type Warning struct {
	Code    string
	Detail  string
	ReplyTo string // the type of the message it was about, if it was about one
}

// Reconnecting says that the connection was lost and is made again. Write goes on meanwhile.
type Reconnecting struct {
	Err error // a *LostError, or that the scheduler asked to connect anew
}

// Resumed says that the session goes on.
type SessionResumed struct {
	Recovered bool  // false: some results or failures are gone and will not come
	ResentFrames    int64 // how many audio frames are sent that were sent before
}

// Ended is the last event of a session that was ended, with its totals.
type SessionEnded wire.SessionEnded

func (UtteranceCommitted) event()    {}
func (PartialResult) event()      {}
func (Result) event()       {}
func (UtteranceFailed) event()       {}
func (SpeechChunk) event()       {}
func (Warning) event()      {}
func (Reconnecting) event() {}
func (SessionResumed) event()      {}
func (SessionEnded) event()        {}
