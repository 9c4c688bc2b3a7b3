package tracing

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// SpanID is the id of a span within its trace.
type SpanID [8]byte

// String returns the id in hexadecimal.
func (id SpanID) String() string { return hex.EncodeToString(id[:]) }

// ParseSpanID reads an id in hexadecimal. It reports false for anything else.
func ParseSpanID(text string) (id SpanID, ok bool) {
	if len(text) != 2*len(id) {
		return id, false
	}
	_, err := hex.Decode(id[:], []byte(text))
	return id, err == nil && id != SpanID{}
}

// newSpanID makes a random id.
func newSpanID() (id SpanID) {
	for id == (SpanID{}) {
		binary.NativeEndian.PutUint64(id[:], rand.Uint64())
	}
	return id
}

// Names of spans. docs/tracing.md describes them.
const (
	SpanUtterance     = "utterance"      // the root of an utterance's trace
	SpanJob           = "job"            // the root of the trace of a job that was dispatched over HTTP
	SpanWait          = "wait"           // phase: until a slot was reserved
	SpanAttempt       = "attempt"        // phase: one attempt, on one node
	SpanRetry         = "retry"          // phase: between two attempts
	SpanQueue         = "session.queue"  // behind earlier utterances of the session
	SpanSend          = "session.send"   // from the outbox to the client's connection
	SpanDispatch      = "dispatch"       // one try to place the job
	SpanSelect        = "select"         // a node was selected
	SpanDeliver       = "deliver"        // the job was sent to its node, or to the instance to which that is connected
	SpanDeliverRemote = "deliver.remote" // the job arrived at that instance and was sent to the node
	SpanSaveSession   = "store.save_session"
	SpanReserve       = "store.reserve"
	SpanCreate        = "store.create"
	SpanCommit        = "store.commit"
	SpanApply         = "store.apply"
	SpanAppend        = "store.append"
)

// Names of attributes.
const (
	AttrJob       = "lingua.job_id"
	AttrSession   = "lingua.session_id"
	AttrNode      = "lingua.node_id"
	AttrAttempt   = "lingua.attempt_id"
	AttrTurn      = "lingua.utterance_index"
	AttrSrc       = "lingua.src_lang"
	AttrTgt       = "lingua.tgt_lang"
	AttrAudioMS   = "lingua.audio_ms"
	AttrBytes     = "lingua.bytes"
	AttrState     = "lingua.state"
	AttrReason    = "lingua.reason"
	AttrEvent     = "lingua.event"
	AttrOutcome   = "lingua.outcome"
	AttrVerdict   = "lingua.verdict"
	AttrTransport = "lingua.transport"
	AttrResult    = "lingua.result"
	AttrOmitted   = "lingua.omitted"
)

// Attr is an attribute: an id, a name of a bounded set, or a number.
type Attr struct {
	key    string
	text   string
	number int64
	isText bool
}

// Text makes an attribute with a text.
func Text[T ~string](key string, value T) Attr {
	return Attr{key: key, text: string(value), isText: true}
}

// Number makes an attribute with a number.
func Number[T ~int | ~int64](key string, value T) Attr { return Attr{key: key, number: int64(value)} }

// Span is a span that has ended.
type Span struct {
	ID         SpanID // zero: a random one
	Parent     SpanID // zero: it is the root
	Name       string
	Start, End time.Time
	Attrs      []Attr
	Error      string             // the code or reason with which it failed; empty: it did not
	Link       *wire.TraceContext // the span of the caller; nil: none
	trace      [16]byte
}
