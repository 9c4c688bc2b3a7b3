package core

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
	"time"
)

// Spec is the part of a job that never changes: the request.
type Spec struct {
	Request RequestID
	Tenant  TenantID
	Session SessionID
	// Incarnation is that of the session of the utterance. A job of an HTTP dispatch has none.
	Incarnation SessionIncarnation
	Direction   Direction
	AudioRef    string
	Options     Options
	Utterance   Utterance
	// LastNode is the node of the session's last job, which this one avoids; empty: none. It is not part of the request.
	LastNode NodeID
	// Pool is the capability pool of the job. It is not part of the request: the first placement decides it.
	Pool JobPool
	// Admission names the job among those that are counted for its tenant; empty: it is not counted. It is not part of the request.
	Admission Token
	// TestJob says that it is a synthetic utterance through one node, the preferred one. It counts neither for nor against the node, and in
	// no statistics.
	TestJob bool
}

// Utterance is the place of a job in its session. A job of an HTTP dispatch has none.
type Utterance struct {
	Turn    int64  // number of the utterance in its session, from 1; 0: none
	ID      string // chosen by the client; may be empty
	AudioMS int64  // duration of the audio
	// Continues is the turn of the utterance of which this is a further part; 0: none.
	Continues int64
	// WaitMS is how long it waited for a node before the job was created. It is not part of the request.
	WaitMS int64
	// SegmentationMS is how long after the end of the speech it was known that the utterance had ended. It is not part of the request.
	SegmentationMS int64
}

// SessionRef identifies the session that the job belongs to.
func (s *Spec) SessionRef() SessionRef {
	return SessionRef{SessionKey{s.Tenant, s.Session}, s.Incarnation}
}

// Job returns the id of the job of this request. Request ids of utterances are local to the incarnation of their session:
// two sessions may use the same ones, even under the same name, and neither finds the jobs of the other.
func (s *Spec) Job() JobID {
	if s.Utterance.Turn == 0 {
		return JobIDFor(s.Tenant, s.Request)
	}
	return jobID(string(s.Tenant), string(s.Session), string(s.Incarnation), string(s.Request))
}

// ExpiresAt returns when a job that has not ended fails: at its deadline, or later if it waits for its audio.
func (j *Job) ExpiresAt() time.Time {
	if j.State == StateRetrying && j.Retry.After(j.Deadline) {
		return j.Retry
	}
	return j.Deadline
}

// Fingerprint hashes the content of a request, to detect another content under the same request id. The audio URL counts
// without its query, which may hold a signature that differs at each retry.
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
	add(string(s.Options.Preferred()))
	addFlag(s.Options.Strict)
	add(s.Options.Region)
	if s.Options.PreferredRegion != "" { // so that other requests have the fingerprints that they had before there was this option
		add(s.Options.PreferredRegion)
	}
	if others := s.Options.others(); others != "" {
		add(others)
	}
	if s.TestJob {
		addFlag(true)
	}
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

// Holder names the holder of a job: an attempt, a node and the epoch of the node. A message from any other changes
// nothing.
type Holder struct {
	Attempt int
	Node    NodeID
	Epoch   Epoch
}

// Attempt is one entry in the history of a job. An attempt that has ended has an end and, unless it succeeded, a reason.
type Attempt struct {
	Holder
	Token   Token
	Started time.Time
	Ended   time.Time
	Reason  Reason
}

// MaxHistory bounds the history of a job. Refused deliveries cost no attempt, so their number has no bound of its own; the
// oldest entries are dropped first.
const MaxHistory = 32

// Job is the record of a job in a store. Its times are on the clock of that store.
type Job struct {
	ID JobID
	Spec
	Fingerprint string

	State   State
	Holder            // the current attempt, or the last one while RETRYING
	Token   Token     // names the lease of the current attempt
	Owner   Token     // while RETRYING: the dispatcher that selects another node …
	Retry   time.Time // … and until when no other dispatcher may
	Reason  Reason    // why the last attempt or the job ended
	Detail  string    // the error text of the node, never text of speech
	Result  []byte    // JSON, once DONE
	History []Attempt

	Version  int // counts the changes of the record
	Created  time.Time
	Updated  time.Time
	Deadline time.Time // of the whole job
}

// BeginAttempt records the start of the current attempt.
func (j *Job) BeginAttempt(now time.Time) {
	j.History = append(j.History, Attempt{Holder: j.Holder, Token: j.Token, Started: now})
	if over := len(j.History) - MaxHistory; over > 0 {
		j.History = slices.Delete(j.History, 0, over)
	}
}

// EndAttempt records the end of the current attempt, once.
func (j *Job) EndAttempt(now time.Time, reason Reason) {
	if n := len(j.History); n > 0 && j.History[n-1].Ended.IsZero() {
		j.History[n-1].Ended = now
		j.History[n-1].Reason = reason
	}
}

// Refused reports whether the request was refused after the record was written. Such a record counts as none.
func (j *Job) Refused() bool { return j.State == StateFailed && j.Reason.Refusal() }

// Clone copies the job so that the copy's history can be appended to.
func (j *Job) Clone() Job {
	c := *j
	c.History = slices.Clone(j.History)
	return c
}

// Had reports whether a node had an attempt of the job.
func (j *Job) Had(node NodeID) bool {
	return slices.ContainsFunc(j.History, func(a Attempt) bool { return a.Node == node })
}

// EndedFor reports whether the job, or one of its attempts, ended for a reason.
func (j *Job) EndedFor(reason Reason) bool {
	return j.Reason == reason || slices.ContainsFunc(j.History, func(a Attempt) bool { return a.Reason == reason })
}

// PastToken returns the token of an attempt that has ended, so that a late message of its node can release the slot that
// it still holds.
func (j *Job) PastToken(attempt int, node NodeID) (Token, bool) {
	for _, past := range slices.Backward(j.History) {
		if past.Attempt == attempt && past.Node == node && !past.Ended.IsZero() {
			return past.Token, true
		}
	}
	return "", false
}
