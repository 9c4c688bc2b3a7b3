package drill

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// What an entry says. Those of the first block are about a session, those of the second about a node, those of the third
// about a call.
const (
	started      = "started"      // the session; Speech: it wants to hear its results
	said         = "said"         // an utterance: Request, Bytes
	committed    = "committed"    // Request, Index, Job
	shown        = "partial"      // Index, Attempt
	terminal     = "terminal"     // Request, Index, Seq, Job, Attempt, OK and then Node, Bytes and Speech, else Code
	spoke        = "spoke"        // a piece of a spoken result: Job, Attempt, Index, Bytes, OK: the last; Code: other than was spoken
	reconnecting = "reconnecting" // Code: why
	resumed      = "resumed"      // Recovered, Bytes: frames that are sent again
	over         = "over"         // the session was ended; Index: its utterances
	lost         = "lost"         // the session will not go on; Code: why
	asked        = "asked"        // on the wire: to resume connection Conn after Seq
	connected    = "connected"    // also a node; Conn, Code: the address it comes from
	wired        = "wired"        // on the wire: a durable message came over Conn with Seq
	told         = "told"         // on the wire: where the utterance Index was cut, over Conn; Job, Seq and Bytes: its first and last frame
	rewound      = "rewound"      // on the wire: over Conn it goes on after Seq, and what was before is gone

	registered = "registered" // the node; Code: how; Slots
	assigned   = "assigned"   // a job; Held: how many it had in hand before
	oversold   = "oversold"   // the same, and it had no slot left
	acked      = "acked"      // it took the job
	rejected   = "rejected"   // it did not
	begun      = "begun"      // the work on it; Held: how many it works on with this one
	ended      = "ended"      // the work on it; OK, or Code
	cancelled  = "cancelled"  // it was told to stop it
	taken      = "taken"      // the result was acknowledged; OK: accepted
	left       = "left"       // the node has gone

	called   = "called"   // Request; it ends in a terminal as an utterance does
	accepted = "accepted" // Request, Job, and Attempt and Node that it was given to
	refused  = "refused"  // it is asked again; Code
	vanished = "vanished" // nobody knows the Job any more, and it is asked for again
	looked   = "looked"   // what there is of it some time after its end, as in terminal
)

// entry is one thing that somebody saw.
type entry struct {
	At        int64  `json:"at"` // nanoseconds, see now
	Who       string `json:"who"`
	What      string `json:"what"`
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
}

// String is an entry as evidence.
func (e entry) String() string {
	text, err := json.Marshal(e)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// birth is when this process began, on both clocks.
var birth = time.Now()

// now never goes back within a process, and agrees between the processes of a drill as long as nobody sets the clock
// in the moment in which one of them starts.
func now() int64 { return birth.UnixNano() + int64(time.Since(birth)) }

// journal writes entries to a file, a line each, at once: its driver may be killed.
type journal struct {
	mu   sync.Mutex
	file *os.File
	enc  *json.Encoder
	err  error // the first
}

func openJournal(path string) (*journal, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &journal{file: f, enc: json.NewEncoder(f)}, nil
}

// note adds an entry. One without a time happened now.
func (j *journal) note(e entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if e.At == 0 {
		e.At = now()
	}
	if err := j.enc.Encode(e); j.err == nil {
		j.err = err
	}
}

func (j *journal) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return errors.Join(j.err, j.file.Close())
}

// readJournal reads what was written.
func readJournal(path string) ([]entry, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []entry
	for dec := json.NewDecoder(bufio.NewReaderSize(f, 1<<16)); dec.More(); {
		var e entry
		if err := dec.Decode(&e); err != nil {
			return all, fmt.Errorf("%s after %d entries: %w", path, len(all), err)
		}
		all = append(all, e)
	}
	return all, nil
}
