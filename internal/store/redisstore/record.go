package redisstore

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// A record is kept as three lines: when it was created and last changed; the head, which holds what steps change and
// is what they are compared by; and the body, which holds what people sent. Heads are written by hand, because they
// are on the way of every job; they are read as the JSON they are.
type recordHead struct {
	Version int           `json:"v"`
	State   string        `json:"s"`
	Attempt int           `json:"a"`
	Node    core.NodeID   `json:"n"`
	Epoch   core.Epoch    `json:"e"`
	Token   core.Token    `json:"t"`
	Owner   core.Token    `json:"o"`
	Retry   *offset       `json:"r"`
	Reason  core.Reason   `json:"y"`
	Ends    offset        `json:"d"`
	History []pastAttempt `json:"h"`
}

type pastAttempt struct {
	Attempt int         `json:"a"`
	Node    core.NodeID `json:"n"`
	Epoch   core.Epoch  `json:"e"`
	Token   core.Token  `json:"t"`
	Started offset      `json:"s"`
	Ended   *offset     `json:"x"`
	Reason  core.Reason `json:"y"`
}

type recordBody struct {
	Spec        core.Spec       `json:"spec"`
	Fingerprint string          `json:"print"`
	Detail      string          `json:"detail,omitempty"`
	Result      json.RawMessage `json:"result,omitempty"`
}

// offset is a moment in a head, in milliseconds: from 0 up, so long after the record was created; below 0, -1 less
// how long after it was last changed, a moment that only the server knows when it writes it.
type offset int64

// asOf is what "now" is called before the server has said what time it is; a time before agesAgo is as of then.
var (
	asOf    = time.UnixMilli(0)
	agesAgo = time.UnixMilli(1e11) // 1973: no server's clock is behind it
)

// times are the moments that offsets count from.
type times struct{ created, updated time.Time }

// offsetOf writes a moment of a record. One that is not before the record's last change was made by it.
func (c times) offsetOf(t time.Time) offset {
	fresh := t.Before(agesAgo)
	if !c.updated.Before(agesAgo) {
		fresh = !t.Before(c.updated)
	}
	if fresh {
		return offset(-1 - t.Sub(c.updated).Milliseconds())
	}
	return offset(t.Sub(c.created).Milliseconds())
}

func (c times) at(o offset) time.Time {
	if o < 0 {
		return c.updated.Add(time.Duration(-1-o) * time.Millisecond)
	}
	return c.created.Add(time.Duration(o) * time.Millisecond)
}

// appendHead writes a head. What it writes of a record is what it wrote when the record was made, so that a step can
// be compared by it; where it is not, for two steps within a millisecond, the step is worked out again.
func appendHead(b []byte, j *core.Job) []byte {
	c := times{j.Created, j.Updated}
	b = append(b, `{"v":`...)
	b = strconv.AppendInt(b, int64(j.Version), 10)
	b = append(b, `,"s":"`...)
	b = append(b, j.State.String()...)
	b = appendHolder(append(b, `",`...), &j.Holder, j.Token)
	if j.Owner != "" {
		b = append(append(append(b, `,"o":"`...), j.Owner...), '"')
	}
	if !j.Retry.IsZero() {
		b = strconv.AppendInt(append(b, `,"r":`...), int64(c.offsetOf(j.Retry)), 10)
	}
	if j.Reason != "" {
		b = append(append(append(b, `,"y":"`...), j.Reason...), '"')
	}
	b = strconv.AppendInt(append(b, `,"d":`...), j.Deadline.Sub(j.Created).Milliseconds(), 10)
	b = append(b, `,"h":[`...)
	for i := range j.History {
		a := &j.History[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = appendHolder(append(b, '{'), &a.Holder, a.Token)
		b = strconv.AppendInt(append(b, `,"s":`...), int64(c.offsetOf(a.Started)), 10)
		if !a.Ended.IsZero() {
			b = strconv.AppendInt(append(b, `,"x":`...), int64(c.offsetOf(a.Ended)), 10)
		}
		if a.Reason != "" {
			b = append(append(append(b, `,"y":"`...), a.Reason...), '"')
		}
		b = append(b, '}')
	}
	return append(b, `]}`...)
}

// appendHolder writes who has a job. Names and tokens hold nothing that JSON would escape.
func appendHolder(b []byte, h *core.Holder, token core.Token) []byte {
	b = strconv.AppendInt(append(b, `"a":`...), int64(h.Attempt), 10)
	b = append(append(append(b, `,"n":"`...), h.Node...), `","e":`...)
	b = strconv.AppendInt(b, int64(h.Epoch), 10)
	return append(append(append(b, `,"t":"`...), token...), '"')
}

// seenAs is how the record of a job begins, if it is the one that was seen.
func seenAs(j *core.Job) string {
	b := make([]byte, 0, 256)
	b = strconv.AppendInt(b, j.Created.UnixMilli(), 10)
	b = strconv.AppendInt(append(b, ','), j.Updated.UnixMilli(), 10)
	return string(append(appendHead(append(b, '\n'), j), '\n'))
}

// encode writes head and body.
func encode(j *core.Job) (string, error) {
	b, err := appendBody(append(appendHead(make([]byte, 0, 768), j), '\n'), j)
	return string(b), err
}

// appendBody writes a body.
func appendBody(b []byte, j *core.Job) ([]byte, error) {
	var err error
	b = append(b, `{"spec":{"Request":"`...)
	b = append(append(b, j.Request...), `","Tenant":"`...)
	b = append(append(b, j.Tenant...), `","Session":"`...)
	b = append(append(b, j.Session...), `","Direction":{"Src":"`...)
	b = append(append(b, j.Direction.Src...), `","Tgt":"`...)
	b = append(append(b, j.Direction.Tgt...), `"},"AudioRef":`...)
	b = appendText(b, j.AudioRef)
	if o := &j.Options; o.RequireTTS || o.Strict || o.PreferredNode != "" || o.Region != "" ||
		len(o.RequiredServices)+len(o.RequiredModels)+len(o.Features) > 0 {
		var options []byte
		if options, err = json.Marshal(o); err != nil {
			return nil, err
		}
		b = append(append(b, `,"Options":`...), options...)
	}
	b = append(append(append(b, `},"print":"`...), j.Fingerprint...), '"')
	if j.Detail != "" {
		b = appendText(append(b, `,"detail":`...), j.Detail)
	}
	if len(j.Result) > 0 {
		if !json.Valid(j.Result) {
			return nil, fmt.Errorf("the result of job %s is not JSON", j.ID)
		}
		b = append(append(b, `,"result":`...), j.Result...)
	}
	return append(b, '}'), nil
}

// appendText writes a string of anybody's as JSON does.
func appendText(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			quoted, err := json.Marshal(text)
			if err != nil {
				quoted = []byte(`""`) // it does not fail for a string
			}
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), text...), '"')
}

// beginning is the part of a record that seenAs would write.
func beginning(text string) string {
	first := strings.IndexByte(text, '\n') + 1
	return text[:first+strings.IndexByte(text[first:], '\n')+1]
}

func decodeRecord(id core.JobID, text string) (*core.Job, error) {
	lines := strings.SplitN(text, "\n", 3)
	if len(lines) != 3 {
		return nil, fmt.Errorf("the record of job %s cannot be read: it has %d lines", id, len(lines))
	}
	created, updated, _ := strings.Cut(lines[0], ",")
	createdMS, err1 := strconv.ParseInt(created, 10, 64)
	updatedMS, err2 := strconv.ParseInt(updated, 10, 64)
	var h recordHead
	var b recordBody
	err3, err4 := json.Unmarshal([]byte(lines[1]), &h), json.Unmarshal([]byte(lines[2]), &b)
	state, err5 := core.ParseState(h.State)
	for _, err := range []error{err1, err2, err3, err4, err5} {
		if err != nil {
			return nil, fmt.Errorf("the record of job %s cannot be read: %w", id, err)
		}
	}
	c := times{time.UnixMilli(createdMS), time.UnixMilli(updatedMS)}
	j := &core.Job{
		ID: id, Spec: b.Spec, Fingerprint: b.Fingerprint, State: state, Version: h.Version,
		Holder: core.Holder{Attempt: h.Attempt, Node: h.Node, Epoch: h.Epoch}, Token: h.Token,
		Owner: h.Owner, Reason: h.Reason, Detail: b.Detail, Result: b.Result,
		Created: c.created, Updated: c.updated, Deadline: c.at(h.Ends),
		History: make([]core.Attempt, len(h.History)),
	}
	if h.Retry != nil {
		j.Retry = c.at(*h.Retry)
	}
	for i, a := range h.History {
		past := core.Attempt{
			Holder: core.Holder{Attempt: a.Attempt, Node: a.Node, Epoch: a.Epoch}, Token: a.Token,
			Started: c.at(a.Started), Reason: a.Reason,
		}
		if a.Ended != nil {
			past.Ended = c.at(*a.Ended)
		}
		j.History[i] = past
	}
	return j, nil
}

// settle puts the server's time into a record that was made before the server had said what time it is.
func settle(j *core.Job, now int64) {
	fix := func(t *time.Time) {
		if !t.IsZero() && t.Before(agesAgo) {
			*t = time.UnixMilli(now).Add(t.Sub(asOf))
		}
	}
	fix(&j.Retry)
	fix(&j.Created)
	fix(&j.Updated)
	fix(&j.Deadline)
	for i := range j.History {
		fix(&j.History[i].Started)
		fix(&j.History[i].Ended)
	}
}
