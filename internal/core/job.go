package core

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
	"time"
)

// Options is what a job asks for beyond its direction.
type Options struct {
	RequireTTS       bool
	RequiredServices []string
	RequiredModels   []string
	Features         []string
	PreferredNode    NodeID
	Strict           bool // the preferred node or nobody
	Region           string
}

// Spec is what a caller wants done: everything about a job that never changes.
type Spec struct {
	Request RequestID
	Tenant  TenantID
	Session SessionID
	// Incarnation is that of the session whose utterance this is. A job that was dispatched by itself has none.
	Incarnation SessionIncarnation
	Direction   Direction
	AudioRef    string
	Options     Options
	Utterance   Utterance
}

// Utterance is a job's place in a conversation. A job that was dispatched by itself has none.
type Utterance struct {
	Turn    int64  // its place in its session, counted from 1; 0: it has none
	ID      string // the speaker's own name for it, if any
	AudioMS int64  // how long it is
	// Continues is the turn of the utterance of which this is a further part; 0: none.
	Continues int64
	// WaitMS is how long it waited for a node before the job was made. It is not part of what is asked for.
	WaitMS int64
}

// SessionRef identifies the conversation that the job belongs to.
func (s *Spec) SessionRef() SessionRef {
	return SessionRef{SessionKey{s.Tenant, s.Session}, s.Incarnation}
}

// Job is the id of the job that this makes. The request ids of a conversation are its own: two conversations may use the
// same ones, also if they have the same name, and neither finds the other's jobs.
func (s *Spec) Job() JobID {
	if s.Utterance.Turn == 0 {
		return JobIDFor(s.Tenant, s.Request)
	}
	return jobID(string(s.Tenant), string(s.Session), string(s.Incarnation), string(s.Request))
}

// Until is when a live job ends if nothing happens: at its deadline, or, if it waits for its sound, after that.
func (j *Job) ExpiresAt() time.Time {
	if j.State == StateRetrying && j.Retry.After(j.Deadline) {
		return j.Retry
	}
	return j.Deadline
}

// Fingerprint tells two contents apart that come under one request id. The audio's address counts without
// its query, which may hold a signature that is made anew at each try.
func (s *Spec) Fingerprint() string {
	buf := make([]byte, 0, 256)
	add := func(part string) {
		buf = binary.BigEndian.AppendUint32(buf, uint32(len(part)))
		buf = append(buf, part...)
	}
	addList := func(list []string) {
		buf = binary.BigEndian.AppendUint32(buf, uint32(len(list)))
		if len(list) == 0 {
			return
		}
		for _, part := range slices.Sorted(slices.Values(list)) {
			add(part)
		}
	}
	addFlag := func(flag bool) {
		if flag {
			buf = append(buf, 1)
		} else {
			buf = append(buf, 0)
		}
	}
	audio, _, _ := strings.Cut(s.AudioRef, "?")

	add(string(s.Tenant))
	add(string(s.Session))
	add(string(s.Direction.Src))
	add(string(s.Direction.Tgt))
	add(audio)
	addFlag(s.Options.RequireTTS)
	addList(s.Options.RequiredServices)
	addList(s.Options.RequiredModels)
	addList(s.Options.Features)
	add(string(s.Options.PreferredNode))
	addFlag(s.Options.Strict)
	add(s.Options.Region)
	if u := &s.Utterance; u.Turn > 0 {
		buf = binary.BigEndian.AppendUint64(buf, uint64(u.Turn))
		buf = binary.BigEndian.AppendUint64(buf, uint64(u.AudioMS))
		buf = binary.BigEndian.AppendUint64(buf, uint64(u.Continues))
		add(u.ID)
		add(string(s.Incarnation))
	}

	sum := sha256.Sum256(buf)
	return hex.EncodeToString(sum[:16])
}

// Holder names who has a job: an attempt on a node in one of the node's lives. A message from anybody else
// changes nothing.
type Holder struct {
	Attempt int
	Node    NodeID
	Epoch   Epoch
}

// Attempt is one line of a job's history. An attempt that is over has an end and a reason.
type Attempt struct {
	Holder
	Token   Token
	Started time.Time
	Ended   time.Time
	Reason  Reason
}

// MaxHistory bounds a job's history. Refused deliveries cost no attempt, so their number has no bound of
// its own; the oldest lines go first.
const MaxHistory = 32

// Job is a job as a store records it. Its times are on the clock of the store that holds the record.
type Job struct {
	ID JobID
	Spec
	Fingerprint string

	State   State
	Holder            // the current attempt, or the last one while RETRYING
	Token   Token     // names the current attempt's lease
	Owner   Token     // while RETRYING: who looks for another node …
	Retry   time.Time // … and until when nobody else may
	Reason  Reason    // why the last attempt or the job ended
	Detail  string    // the node's own word for it, never anything that was said
	Result  []byte    // JSON, once DONE
	History []Attempt

	Version  int // counts the steps the record has made
	Created  time.Time
	Updated  time.Time
	Deadline time.Time // of the whole job
}

// Begin notes the start of the job's current attempt.
func (j *Job) BeginAttempt(now time.Time) {
	j.History = append(j.History, Attempt{Holder: j.Holder, Token: j.Token, Started: now})
	if over := len(j.History) - MaxHistory; over > 0 {
		j.History = slices.Delete(j.History, 0, over)
	}
}

// End notes the end of the job's current attempt, once.
func (j *Job) EndAttempt(now time.Time, reason Reason) {
	if n := len(j.History); n > 0 && j.History[n-1].Ended.IsZero() {
		j.History[n-1].Ended = now
		j.History[n-1].Reason = reason
	}
}

// Refused reports whether the record is of a job that was refused after all: as good as none.
func (j *Job) Refused() bool { return j.State == StateFailed && j.Reason.Refusal() }

// Clone copies the job so that the copy's history can be appended to.
func (j *Job) Clone() Job {
	c := *j
	c.History = slices.Clone(j.History)
	return c
}

// PastToken finds the token of an attempt that is over, so that a late word from its node can free the slot
// it still holds.
func (j *Job) PastToken(attempt int, node NodeID) (Token, bool) {
	for _, past := range slices.Backward(j.History) {
		if past.Attempt == attempt && past.Node == node && !past.Ended.IsZero() {
			return past.Token, true
		}
	}
	return "", false
}
