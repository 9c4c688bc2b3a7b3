package stats

import (
	"encoding/binary"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// An entry is a sequence of varints and of texts, each after its length. It begins with the id of its job. No text in it is longer than
// maxText, so that an entry is bounded whatever nodes and clients send.

// maxText is the longest text of an entry: the longest id.
const maxText = 200

// encodedSize is the capacity with which an entry is encoded: few are larger.
const encodedSize = 384

func appendText[T ~string](buf []byte, text T) []byte {
	text = clip(text, maxText)
	return append(binary.AppendUvarint(buf, uint64(len(text))), text...)
}

// clip shortens a text to a number of bytes, at the start of a character.
func clip[T ~string](text T, size int) T {
	if len(text) <= size {
		return text
	}
	for size > 0 && !utf8.RuneStart(text[size]) {
		size--
	}
	return text[:size]
}

// appendTime appends a time in milliseconds, 0 for none.
func appendTime(buf []byte, t time.Time) []byte {
	if t.IsZero() {
		return binary.AppendVarint(buf, 0)
	}
	return binary.AppendVarint(buf, t.UnixMilli())
}

// The flags of a job.
const (
	flagBound = 1 << iota // to its pool
	flagProbe
)

// appendPool appends the pool of a job, and its flags.
func appendPool(buf []byte, job *core.Job) []byte {
	flags := byte(0)
	if job.Pool.Bound {
		flags |= flagBound
	}
	if job.TestJob {
		flags |= flagProbe
	}
	return append(appendText(buf, job.Pool.ID), flags)
}

// encodedID is what every entry of a job begins with.
func encodedID(id core.JobID) string { return string(appendText(nil, id)) }

func encodeJob(job *core.Job) string {
	var array [encodedSize]byte
	buf := appendText(array[:0], job.ID)
	buf = appendText(buf, job.Request)
	buf = appendText(buf, job.Tenant)
	buf = appendText(buf, job.Session)
	buf = appendText(buf, job.Direction.Src)
	buf = appendText(buf, job.Direction.Tgt)
	buf = appendText(buf, job.Options.Region)
	buf = appendText(buf, job.Reason)
	buf = appendText(buf, clip(job.Detail, maxDetail))
	buf = binary.AppendUvarint(buf, uint64(job.State))
	buf = appendTime(buf, job.Created)
	buf = appendTime(buf, job.Updated)
	buf = appendTime(buf, job.Deadline)
	buf = appendText(buf, job.Node)
	buf = binary.AppendUvarint(buf, uint64(job.Attempt))
	buf = appendPool(buf, job)
	last := job.History[max(0, len(job.History)-maxAttempts):]
	buf = binary.AppendUvarint(buf, uint64(len(last)))
	for i := range last {
		buf = binary.AppendUvarint(buf, uint64(last[i].Attempt))
		buf = appendText(buf, last[i].Node)
		buf = appendTime(buf, last[i].Started)
		buf = appendTime(buf, last[i].Ended)
		buf = appendText(buf, last[i].Reason)
	}
	return string(buf)
}

// decodeJob decodes an entry into a job whose history is empty, and reports whether it could. The job shares the memory of the entry.
func decodeJob(entry string, job *core.Job) bool {
	d := decoder{rest: entry, ok: true}
	job.ID, job.Request = core.JobID(d.text()), core.RequestID(d.text())
	job.Tenant, job.Session = core.TenantID(d.text()), core.SessionID(d.text())
	job.Direction.Src, job.Direction.Tgt = core.Lang(d.text()), core.Lang(d.text())
	job.Options.Region, job.Reason, job.Detail = d.text(), core.Reason(d.text()), d.text()
	job.State = core.State(d.number())
	job.Created, job.Updated, job.Deadline = d.time(), d.time(), d.time()
	job.Node, job.Attempt = core.NodeID(d.text()), int(d.number())
	d.pool(job)
	for range d.number() {
		if !d.ok {
			return false
		}
		a := core.Attempt{Holder: core.Holder{Attempt: int(d.number()), Node: core.NodeID(d.text())}}
		a.Started, a.Ended, a.Reason = d.time(), d.time(), core.Reason(d.text())
		job.History = append(job.History, a)
	}
	return d.ok
}

func encodeDecision(decision *core.Decision) string {
	var array [encodedSize]byte
	buf := appendText(array[:0], decision.Job)
	buf = appendText(buf, decision.Tenant)
	buf = binary.AppendUvarint(buf, uint64(decision.Attempt))
	buf = binary.AppendVarint(buf, decision.AtMS)
	buf = appendText(buf, decision.Node)
	buf = appendText(buf, decision.Pool)
	first := decision.Candidates[:min(len(decision.Candidates), core.MaxCandidates)]
	buf = binary.AppendUvarint(buf, uint64(len(first)))
	for i := range first {
		buf = appendText(buf, first[i].Node)
		buf = appendText(buf, first[i].Reason)
	}
	others := decision.Others
	if rest := decision.Candidates[len(first):]; len(rest) > 0 {
		counts := make(map[core.Reason]int, 4)
		for reason, n := range others {
			counts[reason] += n
		}
		for i := range rest {
			if rest[i].Reason != core.ReasonNone {
				counts[rest[i].Reason]++
			}
		}
		others = counts
	}
	buf = binary.AppendUvarint(buf, uint64(len(others)))
	if len(others) > 0 {
		names := make([]core.Reason, 0, len(others))
		for reason := range others {
			names = append(names, reason)
		}
		slices.Sort(names)
		for _, reason := range names {
			buf = binary.AppendUvarint(appendText(buf, reason), uint64(others[reason]))
		}
	}
	return string(buf)
}

// decodeDecision decodes an entry, and reports whether it could.
func decodeDecision(entry string, decision *core.Decision) bool {
	d := decoder{rest: entry, ok: true}
	decision.Job, decision.Tenant = core.JobID(d.text()), core.TenantID(d.text())
	decision.Attempt, decision.AtMS, decision.Node, decision.Pool = int(d.number()), d.signed(), core.NodeID(d.text()),
		core.PoolID(d.text())
	for range d.number() {
		if !d.ok {
			return false
		}
		decision.Candidates = append(decision.Candidates, core.Candidate{Node: core.NodeID(d.text()), Reason: core.Reason(d.text())})
	}
	for range d.number() {
		if !d.ok {
			return false
		}
		if decision.Others == nil {
			decision.Others = make(map[core.Reason]int)
		}
		reason := core.Reason(d.text())
		decision.Others[reason] = int(d.number())
	}
	return d.ok
}

// decoder reads the parts of an entry.
type decoder struct {
	rest string
	ok   bool // nothing was missing so far
}

func (d *decoder) number() uint64 {
	n, shift := uint64(0), 0
	for i := range min(len(d.rest), binary.MaxVarintLen64) {
		c := d.rest[i]
		n |= uint64(c&0x7f) << shift
		if c < 0x80 {
			d.rest = d.rest[i+1:]
			return n
		}
		shift += 7
	}
	d.rest, d.ok = "", false
	return 0
}

// signed reads a number that was appended with binary.AppendVarint.
func (d *decoder) signed() int64 {
	n := d.number()
	if n&1 != 0 {
		return ^int64(n >> 1)
	}
	return int64(n >> 1)
}

func (d *decoder) text() string {
	size := d.number()
	if size > uint64(len(d.rest)) {
		d.rest, d.ok = "", false
		return ""
	}
	text := d.rest[:size]
	d.rest = d.rest[size:]
	return text
}

// pool decodes the pool of a job, and its flags.
func (d *decoder) pool(job *core.Job) {
	id, flags := core.PoolID(d.text()), d.number()
	job.Pool, job.TestJob = core.JobPool{ID: id, Bound: flags&flagBound != 0}, flags&flagProbe != 0
}

func (d *decoder) time() time.Time {
	ms := d.signed()
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
