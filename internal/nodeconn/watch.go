package nodeconn

import (
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/wire"
)

// watch is what an instance knows of how a connected node answers: the jobs that were sent over the connection, how long answers took, and
// how long nothing has come.
type watch struct {
	sent     []sentJob       // jobs that have not ended, the latest last
	checked  time.Time       // the last check
	progress socket.Progress // at the last check
	heard    time.Time       // the check that last found a sign of life
	asked    time.Time       // the oldest ping that is not answered; zero: there is none
	pinged   time.Time       // the last one
	silent   time.Time       // set only if the node is suspected: the time of the last message before that

	longest [answerMinutes]time.Duration // answer times, by the minute in which the answer came
	minute  int64                        // the last one, which is at minute % answerMinutes
	partial time.Time                    // the last partial result of a job that is not among sent: it came over an earlier connection
	answers int
}

// sentJob is a job that was sent to the node.
type sentJob struct {
	job       wire.ActiveJob
	direction core.Direction
	at        time.Time
	ends      time.Time // when its attempt has ended at the latest
	asked     time.Time // when the ping was sent whose answer is awaited; zero: it has come, or its time would say nothing
	answered  bool      // the node has said something about it, or its ACK was taken as missed
	late      bool      // at the last check it was late
	partial   time.Time // the last partial result that was passed on
}

const (
	silenceInterval = 100 * time.Millisecond // between two checks
	silenceLate     = 250 * time.Millisecond // a check that is later than this shows that this process did not run

	silencePing    = 500 * time.Millisecond // after this silence a node with jobs is asked, and again and again
	silenceFactor  = 3                      // a silence may last this many times the longest answer time …
	silenceMin     = 1500 * time.Millisecond
	silenceUnknown = 8 * time.Second // … and at least this long until the node has given enough answers
	enoughAnswers  = 20
	answerMinutes  = 10 // for how long an answer time counts
)

func (w *watch) recordSent(a *wire.JobAssign, now time.Time) {
	w.sent = append(w.sent, sentJob{
		job:       wire.ActiveJob{JobID: a.JobID, AttemptID: a.AttemptID},
		direction: core.Direction{Src: core.Lang(a.SrcLang), Tgt: core.Lang(a.TgtLang)},
		at:        now, ends: now.Add(time.Duration(a.TimeoutMS) * time.Millisecond), asked: now,
	})
}

func (w *watch) recordAnswer(job wire.ActiveJob, now time.Time) {
	i := slices.IndexFunc(w.sent, func(j sentJob) bool { return j.job == job })
	if i < 0 || w.sent[i].answered {
		return
	}
	w.sent[i].answered = true
	w.addAnswer(&w.sent[i].asked, now)
}

// Of the partial results of a job so many are passed on: one in partialInterval on average, and partialBurst at once.
const (
	partialInterval = 50 * time.Millisecond
	partialBurst    = 4
)

// admitPartial reports whether a partial result of a job may be passed on now. The next one has the whole text again.
func (w *watch) admitPartial(job wire.ActiveJob, now time.Time) bool {
	next := &w.partial // when the next one is due on average
	if i := slices.IndexFunc(w.sent, func(j sentJob) bool { return j.job == job }); i >= 0 {
		next = &w.sent[i].partial
	}
	if next.Sub(now) > (partialBurst-1)*partialInterval {
		return false
	}
	if next.Before(now) {
		*next = now
	}
	*next = next.Add(partialInterval)
	return true
}

func (w *watch) recordPong(now time.Time) { w.addAnswer(&w.asked, now) }

// addAnswer adds the answer to a question, which is not open any more. It is not added if this process did not run for a while: it may have
// waited here.
func (w *watch) addAnswer(asked *time.Time, now time.Time) {
	if !asked.IsZero() && (w.checked.IsZero() || !isLate(w.checked, now)) {
		w.dropOldAnswers(now)
		slot := &w.longest[w.minute%answerMinutes]
		*slot = max(*slot, now.Sub(*asked))
		w.answers = min(w.answers+1, enoughAnswers)
	}
	*asked = time.Time{}
}

// isLate reports whether a check is so late that this process cannot have run all the time since the last one.
func isLate(last, now time.Time) bool { return now.Sub(last) > silenceInterval+silenceLate }

// dropOldAnswers drops the answer times of minutes that are over.
func (w *watch) dropOldAnswers(now time.Time) {
	minute := now.Unix() / 60
	if minute-w.minute >= answerMinutes { // none is left
		w.answers = 0
	}
	for w.minute = max(w.minute, minute-answerMinutes); w.minute < minute; {
		w.minute++
		w.longest[w.minute%answerMinutes] = 0
	}
}

// limit returns how long the node may be silent after a question.
func (w *watch) limit(now time.Time, presence time.Duration) time.Duration {
	w.dropOldAnswers(now)
	limit := silenceMin
	for _, longest := range w.longest {
		limit = max(limit, silenceFactor*longest)
	}
	if w.answers < enoughAnswers {
		limit = max(limit, silenceUnknown)
	}
	return min(limit, presence)
}

// remove removes a job that the node does not have any more.
func (w *watch) remove(job wire.ActiveJob) {
	w.sent = slices.DeleteFunc(w.sent, func(j sentJob) bool { return j.job == job })
}

// takeMissedACKs returns the jobs of which the node has said nothing within a time, each once. A job is returned when a second check finds
// it late: what nodes sent while this process was suspended is read before.
func (w *watch) takeMissedACKs(within time.Duration, now time.Time) (missed []sentJob) {
	for i := range w.sent {
		switch j := &w.sent[i]; {
		case j.answered:
		case j.late:
			missed = append(missed, *j)
			j.answered, j.asked = true, time.Time{}
		default:
			j.late = now.Sub(j.at) >= within
		}
	}
	return missed
}

// verdict is the result of one check.
type verdict struct {
	works   bool // the node has a job
	ping    bool // it is to be asked
	quiet   bool // nothing has come for at least half of the time that is allowed
	overdue bool // nothing has come for longer than is allowed
	heard   bool // something has come from a node that was suspected
}

// isIdle reports whether there is nothing to check.
func (w *watch) isIdle() bool { return len(w.sent) == 0 && w.silent.IsZero() }

// check checks how long nothing has come. unread says that the node may have sent something that was not read yet: then all counts begin
// again.
func (w *watch) check(now time.Time, p socket.Progress, unread bool, presence time.Duration) (v verdict) {
	// The node may report over HTTP.
	w.sent = slices.DeleteFunc(w.sent, func(j sentJob) bool { return j.answered && !now.Before(j.ends) })
	unread = unread || !w.checked.IsZero() && isLate(w.checked, now)
	w.checked = now
	came := p.Reads != w.progress.Reads
	sending := p.Unsent && p.Writes != w.progress.Writes // to a node that reads: a ping waits behind that
	w.progress = p
	if came && !w.silent.IsZero() {
		w.silent, v.heard = time.Time{}, true
	}
	if unread {
		w.forgetQuestions()
	}
	if came || unread || sending {
		w.heard = now
	}
	if len(w.sent) == 0 {
		return v
	}
	v.works = true
	if now.Sub(w.quietSince()) >= silencePing && now.Sub(w.pinged) >= silencePing {
		v.ping, w.pinged = true, now
		if w.asked.IsZero() {
			w.asked = now
		}
	}
	question := w.asked
	for i := range w.sent {
		if asked := w.sent[i].asked; !asked.IsZero() && (question.IsZero() || asked.Before(question)) {
			question = asked
		}
	}
	if question.IsZero() {
		return v
	}
	silence, limit := now.Sub(later(question, w.heard)), w.limit(now, presence)
	v.quiet, v.overdue = silence >= limit/2, silence > limit
	return v
}

// forgetQuestions makes the answers to what was asked so far count for nothing: they may have waited here.
func (w *watch) forgetQuestions() {
	w.asked = time.Time{}
	for i := range w.sent {
		w.sent[i].asked = time.Time{}
	}
}

// suspect records that nothing has come for too long. It reports false if the node was suspected before, or has no job any more.
func (w *watch) suspect() bool {
	if !w.silent.IsZero() || len(w.sent) == 0 {
		return false
	}
	w.silent = w.quietSince()
	return true
}

// quietSince returns the time since which nothing has come although the node has a job.
func (w *watch) quietSince() time.Time { return later(w.heard, w.sent[0].at) }

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
