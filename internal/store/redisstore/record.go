package redisstore

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// A record is kept as two lines. The first is the head, which holds what steps change and is what they are compared
// by: fields between commas, an attempt after each semicolon, none of which can hold either. It begins with when the
// record was created and last changed, which the server fills in.
//
//	created,updated,version,state,ends,owner,retry,reason;attempt,node,epoch,token,started,ended,reason;...
//
// The last attempt is the current one. The second line is the body, which holds what people sent.
const (
	headFields    = 8
	attemptFields = 7
)

type recordBody struct {
	Request     core.RequestID          `json:"r"`
	Tenant      core.TenantID           `json:"w,omitempty"`
	Session     core.SessionID          `json:"c"`
	Incarnation core.SessionIncarnation `json:"e,omitempty"`
	Src         core.Lang               `json:"s"`
	Tgt         core.Lang               `json:"t"`
	AudioRef    string                  `json:"a"`
	Options     core.Options            `json:"o"`
	Utterance   *recordTurn             `json:"u,omitempty"`
	Fingerprint string                  `json:"p"`
	Detail      string                  `json:"d,omitempty"`
	Result      json.RawMessage         `json:"z,omitempty"`
}

type recordTurn struct {
	Turn      int64  `json:"n"`
	ID        string `json:"i,omitempty"`
	AudioMS   int64  `json:"m"`
	Continues int64  `json:"c,omitempty"`
	WaitMS    int64  `json:"w,omitempty"`
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

// appendHead writes a head but for the times it begins with. What it writes of a record is what it wrote when the
// record was made, so that a step can be compared by it; where it is not, as for two steps within a millisecond, the step
// is worked out again.
func appendHead(b []byte, j *core.Job) []byte {
	c := times{j.Created, j.Updated}
	b = strconv.AppendInt(b, int64(j.Version), 10)
	b = append(append(b, ','), j.State.String()...)
	b = strconv.AppendInt(append(b, ','), j.Deadline.Sub(j.Created).Milliseconds(), 10)
	b = append(append(b, ','), j.Owner...)
	b = c.appendMoment(append(b, ','), j.Retry)
	b = append(append(b, ','), j.Reason...)
	for i := range j.History {
		a := &j.History[i]
		b = strconv.AppendInt(append(b, ';'), int64(a.Attempt), 10)
		b = append(append(b, ','), a.Node...)
		b = strconv.AppendInt(append(b, ','), int64(a.Epoch), 10)
		b = append(append(b, ','), a.Token...)
		b = c.appendMoment(append(b, ','), a.Started)
		b = c.appendMoment(append(b, ','), a.Ended)
		b = append(append(b, ','), a.Reason...)
	}
	return append(b, '\n')
}

// appendMoment writes a moment, nothing for none.
func (c times) appendMoment(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return b
	}
	return strconv.AppendInt(b, int64(c.offsetOf(t)), 10)
}

// seenAs is how the record of a job begins, if it is the one that was seen.
func seenAs(j *core.Job) string {
	b := make([]byte, 0, 192)
	b = strconv.AppendInt(b, j.Created.UnixMilli(), 10)
	b = strconv.AppendInt(append(b, ','), j.Updated.UnixMilli(), 10)
	return string(appendHead(append(b, ','), j))
}

// encode writes a record but for the times it begins with.
func encode(j *core.Job) (string, error) {
	b, err := appendBody(appendHead(make([]byte, 0, 512), j), j)
	return string(b), err
}

// appendBody writes a body. It is on the way of every job, so it is not left to reflection.
func appendBody(b []byte, j *core.Job) ([]byte, error) {
	b = append(append(b, `{"r":"`...), j.Request...)
	if j.Tenant != "" {
		b = append(append(b, `","w":"`...), j.Tenant...)
	}
	b = append(append(b, `","c":"`...), j.Session...)
	if j.Incarnation != "" {
		b = append(append(b, `","e":"`...), j.Incarnation...)
	}
	b = append(append(b, `","s":"`...), j.Direction.Src...)
	b = append(append(b, `","t":"`...), j.Direction.Tgt...)
	b = appendText(append(b, `","a":`...), j.AudioRef)
	if o := &j.Options; o.RequireTTS || o.Strict || o.PreferredNode != "" || o.Region != "" ||
		len(o.RequiredServices)+len(o.RequiredModels)+len(o.Features) > 0 {
		options, err := json.Marshal(o)
		if err != nil {
			return nil, err
		}
		b = append(append(b, `,"o":`...), options...)
	}
	if u := &j.Utterance; u.Turn > 0 {
		b = strconv.AppendInt(append(b, `,"u":{"n":`...), u.Turn, 10)
		b = appendText(append(b, `,"i":`...), u.ID)
		b = strconv.AppendInt(append(b, `,"m":`...), u.AudioMS, 10)
		if u.Continues > 0 {
			b = strconv.AppendInt(append(b, `,"c":`...), u.Continues, 10)
		}
		if u.WaitMS > 0 {
			b = strconv.AppendInt(append(b, `,"w":`...), u.WaitMS, 10)
		}
		b = append(b, '}')
	}
	b = append(append(append(b, `,"p":"`...), j.Fingerprint...), '"')
	if j.Detail != "" {
		b = appendText(append(b, `,"d":`...), j.Detail)
	}
	if len(j.Result) > 0 {
		if !json.Valid(j.Result) {
			return nil, fmt.Errorf("the result of job %s is not JSON", j.ID)
		}
		b = append(append(b, `,"z":`...), j.Result...)
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
func beginning(text string) string { return text[:strings.IndexByte(text, '\n')+1] }

func decodeRecord(id core.JobID, text string) (*core.Job, error) {
	head, rest, _ := strings.Cut(text, "\n")
	job, err := decodeHead(head)
	if err != nil {
		return nil, fmt.Errorf("the record of job %s cannot be read: %w", id, err)
	}
	var b recordBody
	if err := json.Unmarshal([]byte(rest), &b); err != nil {
		return nil, fmt.Errorf("the record of job %s cannot be read: %w", id, err)
	}
	job.ID, job.Fingerprint, job.Detail, job.Result = id, b.Fingerprint, b.Detail, b.Result
	job.Spec = core.Spec{
		Request: b.Request, Tenant: b.Tenant, Session: b.Session, Incarnation: b.Incarnation, Direction: core.Direction{Src: b.Src, Tgt: b.Tgt},
		AudioRef: b.AudioRef, Options: b.Options,
	}
	if u := b.Utterance; u != nil {
		job.Utterance = core.Utterance{Turn: u.Turn, ID: u.ID, AudioMS: u.AudioMS, Continues: u.Continues, WaitMS: u.WaitMS}
	}
	return job, nil
}

// fields takes a head apart and remembers what could not be read.
type fields struct {
	left []string
	err  error
}

func (f *fields) text() string {
	next := f.left[0]
	f.left = f.left[1:]
	return next
}

func (f *fields) number() int64 {
	n, err := strconv.ParseInt(f.text(), 10, 64)
	f.err = cmp.Or(f.err, err)
	return n
}

func (f *fields) moment(c times) time.Time {
	if f.left[0] == "" {
		f.text()
		return time.Time{}
	}
	return c.at(offset(f.number()))
}

func decodeHead(head string) (*core.Job, error) {
	parts := strings.Split(head, ";")
	f := fields{left: strings.Split(parts[0], ",")}
	if len(f.left) != headFields || len(parts) < 2 {
		return nil, fmt.Errorf("its head is %q", head)
	}
	c := times{time.UnixMilli(f.number()), time.UnixMilli(f.number())}
	j := &core.Job{Created: c.created, Updated: c.updated, Version: int(f.number())}
	var err error
	if j.State, err = core.ParseState(f.text()); err != nil {
		return nil, err
	}
	j.Deadline = c.at(offset(f.number()))
	j.Owner, j.Retry, j.Reason = core.Token(f.text()), f.moment(c), core.Reason(f.text())
	for _, part := range parts[1:] {
		f.left = strings.Split(part, ",")
		if len(f.left) != attemptFields {
			return nil, fmt.Errorf("an attempt in it is %q", part)
		}
		a := core.Attempt{Holder: core.Holder{Attempt: int(f.number()), Node: core.NodeID(f.text()), Epoch: core.Epoch(f.number())}}
		a.Token, a.Started, a.Ended, a.Reason = core.Token(f.text()), f.moment(c), f.moment(c), core.Reason(f.text())
		j.History = append(j.History, a)
	}
	last := &j.History[len(j.History)-1]
	j.Holder, j.Token = last.Holder, last.Token
	return j, f.err
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
