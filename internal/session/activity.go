package session

import (
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// Activity is what a session does now, for people who look at it.
type Activity struct {
	Remote     string    // the address of its client; empty: it is not known
	Reconnects int64     // how often it was resumed
	Speaking   bool      // audio of an utterance is being received
	LastActive time.Time // when the last message was received, or the connection changed
	// LastLag is the lag of the last result behind its speaker, and LagP95 what 95 % of the recent ones did not exceed. They are valid if
	// Results is not 0.
	LastLag telemetry.Lag
	LagP95  time.Duration
	Results int // how many recent results there were
}

// recentResults is how many results the percentile of the lag is of.
const recentResults = 32

// activity counts what a session does. The session's mutex guards it.
type activity struct {
	remote     string
	reconnects int64
	results    int // since the session is on this instance
	last       telemetry.Lag
	recent     [recentResults]time.Duration // the lag of the result n is at n modulo their number

	waitAnnounced time.Time // when the client was last told that an utterance waits for a slot
}

// observeLag records the lag of a result that was sent.
func (a *activity) observeLag(l telemetry.Lag) {
	a.last = l
	a.recent[a.results%recentResults] = l.Total()
	a.results++
}

// lagP95 returns the lag that 95 % of the recent results did not exceed; 0 if there are none.
func (a *activity) lagP95() time.Duration {
	n := min(a.results, recentResults)
	if n == 0 {
		return 0
	}
	recent := a.recent // a copy, which is sorted
	slices.Sort(recent[:n])
	return recent[(n*95+99)/100-1]
}

// describeActivity describes what the session does. The caller holds the lock.
func (s *Session) describeActivity() Activity {
	a := &s.activity
	return Activity{
		Remote: a.remote, Reconnects: a.reconnects, Speaking: s.conn != nil && s.intake.hasOpenAudio(), LastActive: s.monitor.lastReceived,
		LastLag: a.last, LagP95: a.lagP95(), Results: min(a.results, recentResults),
	}
}
