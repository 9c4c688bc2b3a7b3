package session

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// utterance is what somebody says, from the first audio to the terminal message. Its session's lock guards it.
type utterance struct {
	segment
	session   *Session
	id        string
	src       core.Lang // as its client gave it, if it did
	request   core.RequestID
	direction core.Direction
	options   *optionSet
	continues *closedUtterance // of which it is a further part

	turn        int64     // once it is committed
	since       time.Time // when that was; zero if it was elsewhere
	waits       time.Time // since when its terminal message is waited for over this connection
	job         core.JobID
	spec        core.Spec
	reason      string             // why it ended
	version     int64              // of the session's state that first has it; 0: it was saved elsewhere
	given       bool               // up
	placing     bool               // it is being given to a node
	before      *utterance         // is placed before it
	placed      chan struct{}      // closed when it was placed, or has ended before that
	stopPlacing context.CancelFunc // while it is placed
	revived     bool               // it was committed elsewhere, and its audio comes once more
	noAudio     bool               // its client does not have its audio any more
	expiring    bool               // its time is over, and it is being ended
	attempt     int                // of the last partial
	rev         int64
	told        bool // its terminal message is there
	size        int  // of that message
	ended       bool // and was sent
	stands      int  // the attempt whose result it is; 0: there is none
	voice       voice
}

// pastRequests is how many requests of a session are remembered, to tell a repeated one by.
const pastRequests = 128

// ending says how an utterance is closed.
type ending struct {
	reason  string
	through int64 // the last audio frame that may belong to it
	final   bool  // its client ended it: audio that names it from now on is late
}

// commit closes the open utterance and makes a job of it. One without audio, or with nothing but silence that its client
// did not close, is none.
func (s *Session) commit(end ending) {
	u := s.open
	if u == nil {
		return
	}
	s.open, s.probe = nil, ""
	s.pause.Stop()
	s.cut = end.through
	if len(u.pieces) == 0 || !u.voiced && end.reason != byHand {
		s.drop(u)
		s.remember(u, end)
		s.change()
		return
	}
	if u.request == "" {
		u.request = core.RequestID(string(s.ref.Name) + ":" + strconv.FormatInt(u.first, 10))
	}
	if first := s.requests[u.request]; first != nil {
		s.drop(u)
		end.final = true
		s.remember(u, end)
		s.change()
		s.warn("DUPLICATE_REQUEST", "request_id "+string(u.request)+" was used before in this session; the job is "+string(first.job))
		return
	}
	s.turns++
	s.version++
	u.turn, u.since, u.reason, u.version = s.turns, time.Now(), end.reason, s.version
	s.remember(u, end)
	s.rooms.counts.CountUtterance(end.reason)
	s.register(u)
	s.acknowledge(true)
	if s.unanswered() > s.rooms.cfg.MaxUnanswered {
		s.refuse(u, wire.Errorf(wire.RateLimited, "more than %d utterances wait for their results", s.rooms.cfg.MaxUnanswered), "")
		return
	}
	s.queue(u)
	if u.before != nil {
		s.change() // placing it saves the cut, and others are placed first
	}
	s.rooms.background(func(ctx context.Context) { s.rooms.place(ctx, u) })
}

// firstPart is the turn of the utterance's first part, which may be itself; 0 if that is not committed.
func (u *utterance) firstPart() int64 {
	if u.continues != nil {
		return u.continues.Turn
	}
	return u.turn
}

// drop gives up the audio of an utterance that is not kept for a job.
func (s *Session) drop(u *utterance) { s.rooms.audio.Release(u.release()) }

// smallResults is how many bytes of results may wait for an earlier one without counting as unanswered.
const smallResults = wire.MaxFrame

// unanswered is how many utterances have not ended. Those that have, and wait for an earlier one, do not count while
// they are small: they wait in the store.
func (s *Session) unanswered() int {
	n, bytes := len(s.turn), 0
	for _, u := range s.turn {
		if bytes += u.size; u.told && bytes <= smallResults {
			n--
		}
	}
	return n
}

// announce says where utterances were cut that the store has since a version of the session's state. Before, it is not
// certain: an instance that takes the session over, and has never heard of them, may have to cut them anew.
func (s *Session) announce(since int64) {
	for _, u := range s.waiting() {
		if u.version > since && u.version <= s.stored {
			s.tell(u)
		}
	}
}

// tell says where an utterance was cut.
func (s *Session) tell(u *utterance) {
	if s.link == nil {
		return // after a resume it is sent again
	}
	s.link.Send(wire.UtteranceCommitted{
		JobID: string(u.job), RequestID: string(u.request), UtteranceID: u.id, UtteranceIndex: u.turn - 1,
		SrcLang: string(u.direction.Src), TgtLang: string(u.direction.Tgt), Reason: u.reason,
		FirstSeq: u.first, LastSeq: u.last, DurationMS: u.spec.Utterance.AudioMS, Continues: continuesIndex(&u.spec),
	})
}

// continuesIndex is the index of the utterance of which this is a further part; nil when it is none.
func continuesIndex(spec *core.Spec) *int64 {
	if spec.Utterance.Continues == 0 {
		return nil
	}
	index := spec.Utterance.Continues - 1
	return &index
}

// register makes a committed utterance known by its turn, its request and its job.
func (s *Session) register(u *utterance) {
	options := u.options.Options
	options.RequireTTS = options.RequireTTS || s.set.TTS
	u.spec = s.spec(u, options, u.length.Milliseconds())
	u.job = u.spec.Job()
	if s.asked = append(s.asked, u.request); len(s.asked) > pastRequests {
		delete(s.requests, s.asked[0])
		s.asked = slices.Delete(s.asked, 0, 1)
	}
	s.expect(u)
	s.keep(u)
}

// spec is what is asked of a node for an utterance. The same utterance always gives the same.
func (s *Session) spec(u *utterance, options core.Options, ms int64) core.Spec {
	spec := core.Spec{
		Request: u.request, Tenant: s.ref.Tenant, Session: s.ref.Name, Incarnation: s.ref.Incarnation,
		Direction: u.direction, Options: options,
		AudioRef:  audio.RefPrefix + s.ref.String() + "/" + strconv.FormatInt(u.first, 10) + "-" + strconv.FormatInt(u.last, 10),
		Utterance: core.Utterance{Turn: u.turn, ID: u.id, AudioMS: ms},
	}
	if u.continues != nil {
		spec.Utterance.Continues = u.continues.Turn
	}
	return spec
}

// expect waits for the terminal message of an utterance.
func (s *Session) expect(u *utterance) {
	s.turn[u.turn], s.requests[u.request], s.spoken[u.job] = u, u, u
	u.waits = time.Now()
	s.rooms.mu.Lock()
	s.rooms.spoken[u.job] = u
	s.rooms.mu.Unlock()
	if time.Until(s.due) > 2*lookEvery {
		s.guard() // it was not to be looked at so soon
	}
}

// keep holds the audio of an utterance until its job has ended.
func (s *Session) keep(u *utterance) {
	s.rooms.audio.Put(u.job, s.set.clip(u))
	u.pieces, u.bytes = nil, 0 // they are the clip's now
}
