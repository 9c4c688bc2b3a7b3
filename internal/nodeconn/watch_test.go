package nodeconn

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/wire"
)

const watchPresence = 15 * time.Second

// watchedNode is a node under watch, in a time of its own.
type watchedNode struct {
	watch watch
	now   time.Time
	socket.Progress
	frozen bool
	unread time.Time            // until when nothing was read that the node sent
	takes  func() time.Duration // until the next question is answered
	inbox  []pendingAnswer
	jobs   int
}

// pendingAnswer is an answer that the node sends at a time.
type pendingAnswer struct {
	at  time.Time
	job *wire.ActiveJob // nil: a pong
}

func newWatchedNode(takes func() time.Duration) *watchedNode {
	return &watchedNode{now: time.Unix(1_000_000, 0), takes: takes}
}

// know makes the node one that has given enough answers.
func (n *watchedNode) know() {
	n.watch.dropOldAnswers(n.now)
	n.watch.answers = enoughAnswers
}

// assign gives the node a job, which it acknowledges and does not end.
func (n *watchedNode) assign() wire.ActiveJob {
	n.jobs++
	job := wire.ActiveJob{JobID: fmt.Sprint("job-", n.jobs), AttemptID: 1}
	n.watch.recordSent(&wire.JobAssign{JobID: job.JobID, AttemptID: 1, TimeoutMS: 3_600_000}, n.now)
	n.ask(&job)
	return job
}

// ask sends the node a question. It reads what comes in order, so no answer overtakes an earlier one.
func (n *watchedNode) ask(job *wire.ActiveJob) {
	at := n.now.Add(n.takes())
	if len(n.inbox) > 0 {
		at = later(at, n.inbox[len(n.inbox)-1].at)
	}
	n.inbox = append(n.inbox, pendingAnswer{at, job})
}

// tick lets time pass until the next check, and makes it.
func (n *watchedNode) tick(unread bool) verdict {
	end := n.now.Add(silenceInterval)
	for len(n.inbox) > 0 && !n.frozen && !unread && !n.inbox[0].at.After(end) {
		answer := n.inbox[0]
		n.inbox = n.inbox[1:]
		n.Reads++
		if at := later(answer.at, n.unread); answer.job != nil {
			n.watch.recordAnswer(*answer.job, at)
		} else {
			n.watch.recordPong(at)
		}
	}
	if unread {
		n.unread = end
	}
	n.now = end
	v := n.watch.check(n.now, n.Progress, unread, watchPresence)
	if v.ping {
		n.ask(nil)
	}
	return v
}

// untilOverdue returns after what time the node is overdue; it fails the test after a limit.
func (n *watchedNode) untilOverdue(t rapid.TB, limit time.Duration) time.Duration {
	t.Helper()
	for began := n.now; n.now.Sub(began) < limit; {
		if n.tick(false).overdue {
			return n.now.Sub(began)
		}
	}
	t.Fatalf("not overdue after %v", limit)
	return 0
}

func takes(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

// TestFrozenNodeIsOverdue: a node that answered at once is overdue about two seconds after it has stopped, at any point of its work.
func TestFrozenNodeIsOverdue(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := newWatchedNode(func() time.Duration {
			return rapid.SampledFrom([]time.Duration{0, time.Millisecond, 50 * time.Millisecond}).Draw(t, "takes")
		})
		for range enoughAnswers {
			n.watch.remove(n.assign())
			n.tick(false)
		}
		n.know()
		job := n.assign()
		for range rapid.IntRange(0, 100).Draw(t, "ticks") {
			if n.tick(false).overdue {
				t.Fatal("overdue although it answers")
			}
		}
		n.frozen = true
		if took := n.untilOverdue(t, time.Minute); took < silenceMin || took > silencePing+silenceMin+3*silenceInterval {
			t.Errorf("overdue after %v", took)
		}
		n.watch.suspect()
		if v := n.tick(false); v.heard {
			t.Error("heard although nothing came")
		}
		n.watch.remove(job)
		n.frozen = false
		n.ask(nil)
		for !n.tick(false).heard {
			if len(n.inbox) == 0 {
				t.Fatal("it is not heard although it has answered")
			}
		}
	})
}

// TestSlowNodeIsNotOverdue: a node is not overdue if it answers within three times of what it has needed before.
func TestSlowNodeIsNotOverdue(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		slowest := time.Duration(rapid.IntRange(1, 5000).Draw(t, "slowest ms")) * time.Millisecond
		bound := slowest
		n := newWatchedNode(func() time.Duration { return time.Duration(rapid.Int64Range(0, int64(bound)).Draw(t, "takes")) })
		n.watch.recordSent(&wire.JobAssign{JobID: "first", AttemptID: 1, TimeoutMS: 3_600_000}, n.now)
		n.watch.recordAnswer(wire.ActiveJob{JobID: "first", AttemptID: 1}, n.now.Add(slowest))
		n.know()
		bound = min(max(silenceFactor*slowest, silenceMin), watchPresence) - silenceInterval
		for range 500 {
			if rapid.IntRange(0, 20).Draw(t, "assign") == 0 {
				n.assign()
			}
			if n.tick(false).overdue {
				t.Fatalf("overdue, with answers within %v and once %v", bound, slowest)
			}
		}
	})
}

// TestUnknownNodeHasMoreTime: a node that has not given enough answers may be silent for eight seconds.
func TestUnknownNodeHasMoreTime(t *testing.T) {
	t.Parallel()
	n := newWatchedNode(takes(0))
	n.frozen = true
	n.assign()
	if took := n.untilOverdue(t, time.Minute); took < silenceUnknown || took > silenceUnknown+2*silenceInterval {
		t.Errorf("overdue after %v", took)
	}
}

// TestLimitIsAtMostThePresence: however slow a node was, it is overdue when it does not count as present any more.
func TestLimitIsAtMostThePresence(t *testing.T) {
	t.Parallel()
	n := newWatchedNode(takes(time.Minute))
	n.assign()
	for range 60 * time.Second / silenceInterval {
		n.tick(false)
	}
	n.frozen = true
	if took := n.untilOverdue(t, time.Hour); took > watchPresence+silencePing+2*silenceInterval {
		t.Errorf("overdue after %v", took)
	}
}

// TestAnswerTimesAreForgotten: an answer time counts for ten minutes, at least nine. After ten minutes without an answer nothing is known.
func TestAnswerTimesAreForgotten(t *testing.T) {
	t.Parallel()
	for _, begins := range []time.Duration{0, 30 * time.Second, 59 * time.Second} {
		var w watch
		at := time.Unix(1_200_000, 0).Add(begins)
		asked := at.Add(-2 * time.Second)
		w.addAnswer(&asked, at)
		w.answers = enoughAnswers
		for age, want := range map[time.Duration]time.Duration{
			0: 6 * time.Second, 9 * time.Minute: 6 * time.Second, 10 * time.Minute: silenceUnknown, 24 * time.Hour: silenceUnknown,
		} {
			w := w
			if got := w.limit(at.Add(age), watchPresence); got != want {
				t.Errorf("%v into a minute, %v later: %v, want %v", begins, age, got, want)
			}
		}
	}
}

// TestIdleNodeIsNotAsked: a node without jobs, one that talks, and one whose jobs have just come, get no ping.
func TestIdleNodeIsNotAsked(t *testing.T) {
	t.Parallel()
	n := newWatchedNode(takes(0))
	for range 100 {
		if v := n.tick(false); v != (verdict{}) {
			t.Fatalf("a node without jobs: %+v", v)
		}
	}
	n.frozen = true
	job := n.assign()
	for range 4 {
		if v := n.tick(false); v.ping {
			t.Fatal("asked although its job has just come")
		}
	}
	for range 100 {
		n.Reads++ // it talks
		if v := n.tick(false); v.ping || v.quiet || v.overdue {
			t.Fatalf("a node that talks: %+v", v)
		}
	}
	n.watch.remove(job)
	for range 100 {
		if v := n.tick(false); v != (verdict{}) {
			t.Fatalf("a node without jobs: %+v", v)
		}
	}
}

// TestPingsWhileQuiet: a node with a job that says nothing of its own is asked twice a second.
func TestPingsWhileQuiet(t *testing.T) {
	t.Parallel()
	n := newWatchedNode(takes(0))
	n.assign()
	pings := 0
	for range 100 {
		if n.tick(false).ping {
			pings++
		}
	}
	if pings < 15 || pings > 20 {
		t.Errorf("%d pings in 10 s", pings)
	}
	if n.watch.answers < pings/2 {
		t.Errorf("%d answers to %d pings", n.watch.answers, pings)
	}
}

// TestWhatCountsAsSign: while bytes are being written to a node that reads, and while its bytes may not have been read, it is not silent; and
// what was asked then measures nothing.
func TestWhatCountsAsSign(t *testing.T) {
	t.Parallel()
	n := newWatchedNode(takes(0))
	n.know()
	n.frozen = true
	n.assign()
	for range 100 {
		n.Writes, n.Unsent = n.Writes+1, true
		if n.tick(false).overdue {
			t.Fatal("overdue while it is reading what is sent")
		}
	}
	n.Unsent, n.frozen, n.inbox = false, false, nil
	n.watch.sent = nil
	n.assign()
	n.watch.asked = n.now
	n.ask(nil)
	for range 100 {
		if n.tick(true).overdue {
			t.Fatal("overdue while nothing is read")
		}
	}
	n.tick(false)
	if limit := n.watch.limit(n.now, watchPresence); limit != silenceMin {
		t.Errorf("the limit is %v: the time in which nothing was read counts as an answer time", limit)
	}
	n.frozen, n.inbox = true, nil
	n.Writes++ // a ping was written, and nothing waits behind it
	if took := n.untilOverdue(t, time.Minute); took > silencePing+silenceMin+3*silenceInterval {
		t.Errorf("overdue after %v", took)
	}
}

// TestJobsOfTheWatch: a node is watched until its jobs have ended, at the latest when their attempts have.
func TestJobsOfTheWatch(t *testing.T) {
	t.Parallel()
	n := newWatchedNode(takes(0))
	first, second := n.assign(), n.assign()
	n.watch.remove(first)
	if !n.tick(false).works {
		t.Error("not watched although it has a job")
	}
	n.watch.sent[0].ends = n.now.Add(time.Second)
	for range 9 {
		if !n.tick(false).works {
			t.Fatal("not watched although its attempt has not ended")
		}
	}
	if n.tick(false); n.tick(false).works {
		t.Errorf("watched although the attempt of %s has ended", second.JobID)
	}
	if n.watch.suspect() {
		t.Error("suspected although it has no job")
	}
}

// TestAnswersThatWaitedHere: an answer that comes after this process did not run for a while is a sign of life, and measures nothing.
func TestAnswersThatWaitedHere(t *testing.T) {
	t.Parallel()
	n := newWatchedNode(takes(0))
	n.know()
	job := n.assign()
	n.tick(false)
	n.watch.sent[0].answered, n.watch.sent[0].asked, n.watch.asked = false, n.now, n.now
	n.now = n.now.Add(20 * time.Second)
	if v := n.tick(false); v.quiet || v.overdue {
		t.Errorf("after this process did not run: %+v", v)
	}
	n.watch.sent[0].asked, n.watch.asked = n.now, n.now
	n.now = n.now.Add(5 * time.Second)
	n.Reads++
	n.watch.recordAnswer(job, n.now)
	n.watch.recordPong(n.now)
	if v := n.tick(false); v.quiet || v.overdue {
		t.Errorf("%+v", v)
	}
	if limit := n.watch.limit(n.now, watchPresence); limit != silenceMin {
		t.Errorf("the limit is %v, want %v", limit, silenceMin)
	}
}

// TestMissedACKsEndNoWatch: a node that has not acknowledged a job over its connection may have it all the same.
func TestMissedACKsEndNoWatch(t *testing.T) {
	t.Parallel()
	n := newWatchedNode(takes(0))
	n.frozen = true
	n.assign()
	var missed int
	for range 50 {
		missed += len(n.watch.takeMissedACKs(2*time.Second, n.now))
		if !n.tick(false).works {
			t.Fatal("not watched any more")
		}
	}
	if missed != 1 {
		t.Errorf("%d missed ACKs, want 1", missed)
	}
}
