// Package journal records what the drivers of a test cluster see: entries in a file, one JSON object a line.
package journal

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// Kinds of entries about a session. Each comment names the fields that are set.
const (
	SessionStarted     = "session_started"     // Speech: the session asked for speech
	UtteranceSent      = "utterance_sent"      // Request, Bytes
	UtteranceCommitted = "utterance_committed" // Request, Index, Job
	PartialReceived    = "partial_received"    // Index, Attempt
	// Request, Index, Seq, Job, Attempt, OK and then Node, Bytes and Speech, else Code; also of a call.
	Terminal = "terminal"
	// one chunk: Job, Attempt, Index, Bytes; OK: the last; Code: how it differs from what the node sent.
	SpeechReceived  = "speech_received"
	Reconnecting    = "reconnecting"     // Code: why
	Resumed         = "resumed"          // Recovered; Bytes: audio frames that are sent again
	SessionEnded    = "session_ended"    // Index: the number of utterances
	SessionLost     = "session_lost"     // Code: why the session cannot continue
	Connected       = "connected"        // also of a node; Conn, Code: the local address of the connection
	ResumeSent      = "resume_sent"      // seen on the wire: session_resume over Conn, after Seq
	DurableReceived = "durable_received" // seen on the wire: a durable message over Conn, with Seq
	// seen on the wire: utterance_committed of Index over Conn; Job; Seq and Bytes: its first and last frame.
	CommitReceived = "commit_received"
	// seen on the wire: session_resumed over Conn, which continues after Seq; earlier messages are lost.
	GapReceived = "gap_received"
)

// Kinds of entries about a node.
const (
	NodeRegistered  = "node_registered"   // Code: how; Slots
	JobAssigned     = "job_assigned"      // Held: how many jobs the node held before; Session
	JobOverAssigned = "job_over_assigned" // as JobAssigned, although no slot was free
	JobAcked        = "job_acked"
	JobRejected     = "job_rejected"
	WorkStarted     = "work_started" // Held: how many jobs the node works on, with this one
	WorkEnded       = "work_ended"   // OK, or Code
	WorkCancelled   = "work_cancelled"
	ResultAcked     = "result_acked" // OK: the result was accepted
	NodeStopped     = "node_stopped" // OK, or Code
)

// Kinds of entries about a call, which is a job that is dispatched over HTTP. A call ends with a Terminal entry.
const (
	CallSent      = "call_sent"      // Request
	CallAccepted  = "call_accepted"  // Request, Job, and the Attempt and Node that it was given to
	CallRefused   = "call_refused"   // Code; the call is sent again
	JobNotFound   = "job_not_found"  // the Job has no record; the call is sent again
	OutcomeReread = "outcome_reread" // the outcome some time after the end, with the fields of Terminal
)

// Kinds of entries about a request that may wait for a slot. One request may be sent to several instances. If it is placed, it goes on as a
// call.
const (
	// Request, Session, Conn: the number of the instance, Seq: for how many milliseconds it may wait, Code: the direction.
	WaitSent     = "wait_sent"
	WaitAnswered = "wait_answered" // Request, Conn; OK, Job, Attempt and Node, or Code
	WaitLeft     = "wait_left"     // Request, Conn; the caller has disconnected
)

// Entry is one observation by a session, a node or a caller.
type Entry struct {
	At        int64  `json:"at"`     // nanoseconds, see Now
	Source    string `json:"source"` // the name of the session, node or caller
	Kind      string `json:"kind"`
	Job       string `json:"job,omitempty"`
	Attempt   int    `json:"attempt,omitempty"`
	Node      string `json:"node,omitempty"`
	Request   string `json:"request,omitempty"`
	Index     int64  `json:"index,omitempty"`
	Seq       int64  `json:"seq,omitempty"`
	Conn      int    `json:"conn,omitempty"`
	Bytes     int64  `json:"bytes,omitempty"`
	OK        bool   `json:"ok,omitempty"`
	Code      string `json:"code,omitempty"`
	Recovered bool   `json:"recovered,omitempty"`
	Speech    bool   `json:"speech,omitempty"`
	Held      int    `json:"held,omitempty"`
	Slots     int    `json:"slots,omitempty"`
	Session   string `json:"session,omitempty"`
}

// String returns the entry as JSON, for the evidence of a violation.
func (e Entry) String() string {
	text, err := json.Marshal(e)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// processStart is the wall clock and the monotonic clock at the start of this process.
var processStart = time.Now()

// Now returns the time in nanoseconds. It never goes back within a process, and agrees between the processes of a cluster
// unless the wall clock is set while one of them starts.
func Now() int64 { return At(time.Now()) }

// At returns a time of this process as Now does.
func At(t time.Time) int64 { return processStart.UnixNano() + int64(t.Sub(processStart)) }

// Writer appends entries to a file. Each entry is written at once, because the process of a driver may be killed.
type Writer struct {
	mu   sync.Mutex
	file *os.File
	enc  *json.Encoder
	err  error // the first error
}

// Create creates or truncates the file of a journal.
func Create(path string) (*Writer, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &Writer{file: f, enc: json.NewEncoder(f)}, nil
}

// Add appends an entry. An entry without a time gets the present one.
func (w *Writer) Add(e Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.At == 0 {
		e.At = Now()
	}
	if err := w.enc.Encode(e); w.err == nil {
		w.err = err
	}
}

// Close closes the file. It returns the first error of all writes.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return errors.Join(w.err, w.file.Close())
}

// Read reads all entries of a file. On an error it returns the entries before it, too.
func Read(path string) ([]Entry, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	var all []Entry
	for dec := json.NewDecoder(bufio.NewReaderSize(f, 1<<16)); dec.More(); {
		var e Entry
		if err := dec.Decode(&e); err != nil {
			return all, fmt.Errorf("%s after %d entries: %w", path, len(all), err)
		}
		all = append(all, e)
	}
	return all, nil
}
