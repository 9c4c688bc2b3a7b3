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

// A record is stored as two lines. The first is the head: everything that transitions change, by which the compare-and-set compares.
// Its fields are separated by commas and its attempts by semicolons; no field can contain either. It begins with the times of creation
// and last change, which the server fills in.
//
//	created,updated,version,state,ends,owner,retry,reason;attempt,node,epoch,token,started,ended,reason;...
//
// The last attempt is the current one. The second line is the body: the request, the detail and the result.
const (
	headFields    = 8
	attemptFields = 7
)

// recordBody is the second line of a record.
type recordBody struct {
	Request     core.RequestID          `json:"r"`
	Tenant      core.TenantID           `json:"w,omitempty"`
	Session     core.SessionID          `json:"c"`
	Incarnation core.SessionIncarnation `json:"e,omitempty"`
	Src         core.Lang               `json:"s"`
	Tgt         core.Lang               `json:"t"`
	AudioRef    string                  `json:"a"`
	Options     any                     `json:"o"` // core.Options.Stored
	Utterance   *recordUtterance        `json:"u,omitempty"`
	LastNode    core.NodeID             `json:"l,omitempty"`
	Pool        core.PoolID             `json:"b,omitempty"`
	PoolBound   bool                    `json:"B,omitempty"`
	Admission   core.Token              `json:"A,omitempty"`
	Probe       bool                    `json:"P,omitempty"`
	Fingerprint string                  `json:"p"`
	Detail      string                  `json:"d,omitempty"`
	Result      json.RawMessage         `json:"z,omitempty"`
}

type recordUtterance struct {
	Turn      int64  `json:"n"`
	ID        string `json:"i,omitempty"`
	AudioMS   int64  `json:"m"`
	Continues int64  `json:"c,omitempty"`
	WaitMS    int64  `json:"w,omitempty"`
	SegmentMS int64  `json:"s,omitempty"`
}

// offset is a time in a head, in milliseconds: n >= 0 is n after the creation of the record, n < 0 is -1-n after its last change, a time
// that only the server knows when it writes the record.
type offset int64

// unresolvedNow stands for the server's time until its reply is known. Every time before earliestServerTime is relative to it.
var (
	unresolvedNow      = time.UnixMilli(0)
	earliestServerTime = time.UnixMilli(1e11) // 1973: every server's clock is later
)

// timeBase holds the times to which offsets are relative.
type timeBase struct{ created, updated time.Time }

// offsetOf encodes a time of a record. One that is not before the record's last change was set by that change.
func (b timeBase) offsetOf(t time.Time) offset {
	isNew := t.Before(earliestServerTime)
	if !b.updated.Before(earliestServerTime) {
		isNew = !t.Before(b.updated)
	}
	if isNew {
		return offset(-1 - t.Sub(b.updated).Milliseconds())
	}
	return offset(t.Sub(b.created).Milliseconds())
}

func (b timeBase) at(o offset) time.Time {
	if o < 0 {
		return b.updated.Add(time.Duration(-1-o) * time.Millisecond)
	}
	return b.created.Add(time.Duration(o) * time.Millisecond)
}

// appendHead appends a head without the two times that it begins with. For a record that was read, it appends the same head that was
// stored, so that a compare-and-set succeeds; where it differs, as after two changes within a millisecond, the transition is computed
// again from the stored record.
func appendHead(b []byte, j *core.Job) []byte {
	base := timeBase{j.Created, j.Updated}
	b = strconv.AppendInt(b, int64(j.Version), 10)
	b = append(append(b, ','), j.State.String()...)
	b = strconv.AppendInt(append(b, ','), j.Deadline.Sub(j.Created).Milliseconds(), 10)
	b = append(append(b, ','), j.Owner...)
	b = base.appendTime(append(b, ','), j.Retry)
	b = append(append(b, ','), j.Reason...)
	for i := range j.History {
		a := &j.History[i]
		b = strconv.AppendInt(append(b, ';'), int64(a.Attempt), 10)
		b = append(append(b, ','), a.Node...)
		b = strconv.AppendInt(append(b, ','), int64(a.Epoch), 10)
		b = append(append(b, ','), a.Token...)
		b = base.appendTime(append(b, ','), a.Started)
		b = base.appendTime(append(b, ','), a.Ended)
		b = append(append(b, ','), a.Reason...)
	}
	return append(b, '\n')
}

// appendTime appends the offset of a time, and nothing for the zero time.
func (b timeBase) appendTime(text []byte, t time.Time) []byte {
	if t.IsZero() {
		return text
	}
	return strconv.AppendInt(text, int64(b.offsetOf(t)), 10)
}

// headOf returns the head of a job's record.
func headOf(j *core.Job) string {
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
	if !j.Options.IsZero() {
		options, err := json.Marshal(j.Options.Stored())
		if err != nil {
			return nil, err
		}
		b = append(append(b, `,"o":`...), options...)
	}
	if u := &j.Utterance; *u != (core.Utterance{}) {
		b = strconv.AppendInt(append(b, `,"u":{"n":`...), u.Turn, 10)
		b = appendText(append(b, `,"i":`...), u.ID)
		b = strconv.AppendInt(append(b, `,"m":`...), u.AudioMS, 10)
		if u.Continues != 0 {
			b = strconv.AppendInt(append(b, `,"c":`...), u.Continues, 10)
		}
		if u.WaitMS != 0 {
			b = strconv.AppendInt(append(b, `,"w":`...), u.WaitMS, 10)
		}
		if u.SegmentationMS != 0 {
			b = strconv.AppendInt(append(b, `,"s":`...), u.SegmentationMS, 10)
		}
		b = append(b, '}')
	}
	if j.LastNode != "" {
		b = append(append(append(b, `,"l":"`...), j.LastNode...), '"')
	}
	if j.Pool.ID != "" {
		b = append(append(append(b, `,"b":"`...), j.Pool.ID...), '"')
	}
	if j.Pool.Bound {
		b = append(b, `,"B":true`...)
	}
	if j.Admission != "" {
		b = append(append(append(b, `,"A":"`...), j.Admission...), '"')
	}
	if j.TestJob {
		b = append(b, `,"P":true`...)
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

// appendText appends a string from outside as JSON.
func appendText(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			quoted, err := json.Marshal(text)
			if err != nil {
				quoted = []byte(`""`) // encoding a string does not fail
			}
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), text...), '"')
}

// headText returns the head of a stored record, as headOf would.
func headText(text string) string { return text[:strings.IndexByte(text, '\n')+1] }

func decodeRecord(id core.JobID, text string) (*core.Job, error) {
	head, rest, _ := strings.Cut(text, "\n")
	job, err := decodeHead(head)
	if err != nil {
		return nil, fmt.Errorf("job %s: %w", id, err)
	}
	b := recordBody{Options: job.Options.Stored()}
	if json.Unmarshal([]byte(rest), &b) != nil {
		return nil, fmt.Errorf("job %s: %w", id, errMalformed)
	}
	job.ID, job.Fingerprint, job.Detail, job.Result = id, b.Fingerprint, b.Detail, b.Result
	job.Options.Normalise()
	job.Spec = core.Spec{
		Request: b.Request, Tenant: b.Tenant, Session: b.Session, Incarnation: b.Incarnation,
		Direction: core.Direction{Src: b.Src, Tgt: b.Tgt},
		AudioRef:  b.AudioRef, Options: job.Options, LastNode: b.LastNode,
		Pool: core.JobPool{ID: b.Pool, Bound: b.PoolBound}, Admission: b.Admission, TestJob: b.Probe,
	}
	if u := b.Utterance; u != nil {
		job.Utterance = core.Utterance{Turn: u.Turn, ID: u.ID, AudioMS: u.AudioMS, Continues: u.Continues, WaitMS: u.WaitMS,
			SegmentationMS: u.SegmentMS}
	}
	return job, nil
}

// headParser parses the fields of a head and keeps the first error.
type headParser struct {
	rest []string
	err  error
}

func (p *headParser) text() string {
	next := p.rest[0]
	p.rest = p.rest[1:]
	return next
}

func (p *headParser) number() int64 {
	n, err := strconv.ParseInt(p.text(), 10, 64)
	p.err = cmp.Or(p.err, err)
	return n
}

func (p *headParser) time(base timeBase) time.Time {
	if p.rest[0] == "" {
		p.text()
		return time.Time{}
	}
	return base.at(offset(p.number()))
}

func decodeHead(head string) (*core.Job, error) {
	parts := strings.Split(head, ";")
	p := headParser{rest: strings.Split(parts[0], ",")}
	if len(p.rest) != headFields || len(parts) < 2 {
		return nil, errMalformed
	}
	base := timeBase{time.UnixMilli(p.number()), time.UnixMilli(p.number())}
	j := &core.Job{Created: base.created, Updated: base.updated, Version: int(p.number())}
	var err error
	j.State, err = core.ParseState(p.text())
	p.err = cmp.Or(p.err, err)
	j.Deadline = base.at(offset(p.number()))
	j.Owner, j.Retry, j.Reason = core.Token(p.text()), p.time(base), core.Reason(p.text())
	for _, part := range parts[1:] {
		p.rest = strings.Split(part, ",")
		if len(p.rest) != attemptFields {
			return nil, errMalformed
		}
		a := core.Attempt{Holder: core.Holder{Attempt: int(p.number()), Node: core.NodeID(p.text()), Epoch: core.Epoch(p.number())}}
		a.Token, a.Started, a.Ended, a.Reason = core.Token(p.text()), p.time(base), p.time(base), core.Reason(p.text())
		j.History = append(j.History, a)
	}
	last := &j.History[len(j.History)-1]
	j.Holder, j.Token = last.Holder, last.Token
	if p.err != nil {
		return nil, errMalformed
	}
	return j, nil
}

// resolveTimes replaces the times relative to unresolvedNow by those of the server.
func resolveTimes(j *core.Job, now int64) {
	resolve := func(t *time.Time) {
		if !t.IsZero() && t.Before(earliestServerTime) {
			*t = time.UnixMilli(now).Add(t.Sub(unresolvedNow))
		}
	}
	resolve(&j.Retry)
	resolve(&j.Created)
	resolve(&j.Updated)
	resolve(&j.Deadline)
	for i := range j.History {
		resolve(&j.History[i].Started)
		resolve(&j.History[i].Ended)
	}
}
