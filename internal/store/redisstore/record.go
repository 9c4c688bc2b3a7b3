package redisstore

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// A record is kept as two lines of JSON. The head holds what steps change, times among it, and is what they are
// compared by; the body holds what people sent, which no script looks into.
type recordHead struct {
	Version int           `json:"v"`
	State   string        `json:"s"`
	Attempt int           `json:"a"`
	Node    core.NodeID   `json:"n"`
	Epoch   core.Epoch    `json:"e"`
	Token   core.Token    `json:"t"`
	Owner   core.Token    `json:"o,omitempty"`
	Retry   stamp         `json:"r,omitempty"`
	Reason  core.Reason   `json:"y,omitempty"`
	Created stamp         `json:"c"`
	Updated stamp         `json:"u"`
	Ends    stamp         `json:"d"`
	History []pastAttempt `json:"h"`
}

type pastAttempt struct {
	Attempt int         `json:"a"`
	Node    core.NodeID `json:"n"`
	Epoch   core.Epoch  `json:"e"`
	Token   core.Token  `json:"t"`
	Started stamp       `json:"s"`
	Ended   stamp       `json:"x,omitempty"`
	Reason  core.Reason `json:"y,omitempty"`
}

type recordBody struct {
	Spec        core.Spec       `json:"spec"`
	Fingerprint string          `json:"print"`
	Detail      string          `json:"detail,omitempty"`
	Result      json.RawMessage `json:"result,omitempty"`
}

// stamp is a moment in a head: milliseconds on the server's clock; or, below agesAgo, that many milliseconds from
// the moment at which the server will write it.
type stamp int64

const agesAgo = stamp(1e11) // 1973: no server's clock is behind it

// asOf is what "now" is called before the server has said what time it is.
var asOf = time.UnixMilli(1)

// stampOf is the stamp of a time that Step made from asOf, or of one that a record has.
func stampOf(t time.Time) stamp {
	if t.IsZero() {
		return 0
	}
	return stamp(t.UnixMilli())
}

// MarshalJSON writes a moment to come as the scripts expect it.
func (s stamp) MarshalJSON() ([]byte, error) {
	if s == 0 || s >= agesAgo {
		return strconv.AppendInt(nil, int64(s), 10), nil
	}
	return fmt.Appendf(nil, `"@%d"`, int64(s)-asOf.UnixMilli()), nil
}

// time is the moment; now is when the server wrote those that were to come.
func (s stamp) time(now int64) time.Time {
	switch {
	case s == 0:
		return time.Time{}
	case s < agesAgo:
		return time.UnixMilli(now + int64(s) - asOf.UnixMilli())
	}
	return time.UnixMilli(int64(s))
}

func encodeHead(j *core.Job) (string, error) {
	h := recordHead{
		Version: j.Version, State: j.State.String(), Attempt: j.Attempt, Node: j.Node, Epoch: j.Epoch, Token: j.Token,
		Owner: j.Owner, Retry: stampOf(j.Retry), Reason: j.Reason,
		Created: stampOf(j.Created), Updated: stampOf(j.Updated), Ends: stampOf(j.Deadline),
		History: make([]pastAttempt, len(j.History)),
	}
	for i, a := range j.History {
		h.History[i] = pastAttempt{
			Attempt: a.Attempt, Node: a.Node, Epoch: a.Epoch, Token: a.Token,
			Started: stampOf(a.Started), Ended: stampOf(a.Ended), Reason: a.Reason,
		}
	}
	text, err := json.Marshal(h)
	return string(text), err
}

func encodeBody(j *core.Job) (string, error) {
	text, err := json.Marshal(recordBody{Spec: j.Spec, Fingerprint: j.Fingerprint, Detail: j.Detail, Result: j.Result})
	return string(text), err
}

func decodeRecord(id core.JobID, text string) (*core.Job, error) {
	head, body, _ := strings.Cut(text, "\n")
	var h recordHead
	var b recordBody
	if err := json.Unmarshal([]byte(head), &h); err != nil {
		return nil, fmt.Errorf("the record of job %s cannot be read: %w", id, err)
	}
	if err := json.Unmarshal([]byte(body), &b); err != nil {
		return nil, fmt.Errorf("the record of job %s cannot be read: %w", id, err)
	}
	state, err := core.ParseState(h.State)
	if err != nil {
		return nil, fmt.Errorf("the record of job %s cannot be read: %w", id, err)
	}
	j := &core.Job{
		ID: id, Spec: b.Spec, Fingerprint: b.Fingerprint, State: state, Version: h.Version,
		Holder: core.Holder{Attempt: h.Attempt, Node: h.Node, Epoch: h.Epoch}, Token: h.Token,
		Owner: h.Owner, Retry: h.Retry.time(0), Reason: h.Reason, Detail: b.Detail, Result: b.Result,
		Created: h.Created.time(0), Updated: h.Updated.time(0), Deadline: h.Ends.time(0),
		History: make([]core.Attempt, len(h.History)),
	}
	for i, a := range h.History {
		j.History[i] = core.Attempt{
			Holder: core.Holder{Attempt: a.Attempt, Node: a.Node, Epoch: a.Epoch}, Token: a.Token,
			Started: a.Started.time(0), Ended: a.Ended.time(0), Reason: a.Reason,
		}
	}
	return j, nil
}

// settle puts the server's time into a record that was made before the server had said what time it is.
func settle(j *core.Job, now int64) {
	fix := func(t *time.Time) { *t = stampOf(*t).time(now) }
	fix(&j.Retry)
	fix(&j.Created)
	fix(&j.Updated)
	fix(&j.Deadline)
	for i := range j.History {
		fix(&j.History[i].Started)
		fix(&j.History[i].Ended)
	}
}
