package client

import (
	"fmt"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

const (
	// keptSize bounds the audio that is kept, sent or not; what ends an utterance may come on top.
	keptSize = 64 << 20
	allSize  = keptSize + 1<<20
	// unsentSize bounds what waits to be sent: a minute of the densest audio there is.
	unsentSize = 12 << 20
	// entrySize is what an entry takes beside its audio.
	entrySize = 128
)

// entry is one message to the scheduler.
type entry struct {
	at      int64 // which audio frame it is, or which it stands before
	audio   bool
	data    []byte
	begin   wire.UtteranceStart // what the utterance that the frame begins is called
	final   bool
	frame   wire.Frame // anything but audio
	written time.Time
}

// journal holds, in order, what was said to the scheduler and may have to be said again, and what is still to be said.
// Audio frames count from 1 over the session, the empty one that ends an utterance too. Other messages have no number;
// they keep their place among the frames, and are said again with them.
type journal struct {
	keep time.Duration // after which nothing can be asked for any more; 0: not known

	entries []entry
	sent    int   // how many of the entries were sent on this connection
	first   int64 // the first audio frame that is kept, or the next that will be
	last    int64 // the last audio frame
	highest int64 // the last audio frame that was ever sent
	settled int64 // frames up to here belong to utterances that are over
	size    int   // of all entries
	unsent  int   // of those that are not sent
}

func newJournal(keep time.Duration) journal { return journal{keep: keep, first: 1} }

func (e *entry) size() int { return entrySize + len(e.data) }

// backlog reports whether so much waits to be sent that nothing should be added.
func (j *journal) backlog() bool { return j.unsent >= unsentSize }

// add appends an audio frame, or another message.
func (j *journal) add(e entry) {
	e.at = j.last + 1
	if e.audio {
		j.last++
	}
	j.entries = append(j.entries, e)
	j.size += e.size()
	j.unsent += e.size()
	j.trim(e.written)
}

// next returns what is to be sent now.
func (j *journal) next(now time.Time) (entry, bool) {
	if j.sent == len(j.entries) {
		return entry{}, false
	}
	e := j.entries[j.sent]
	j.sent++
	j.unsent -= e.size()
	if e.audio {
		j.highest = max(j.highest, e.at)
	}
	j.trim(now)
	return e, true
}

// rewind goes back to an audio frame, on a new connection. It says how many frames are sent again.
func (j *journal) rewind(from int64) (again int64, err error) {
	from = max(from, 1)
	if from < j.first {
		return 0, fmt.Errorf("%w (from frame %d on; %d is the first that is kept)", ErrAudioDiscarded, from, j.first)
	}
	if from > j.last+1 {
		return 0, fmt.Errorf("client: the scheduler waits for audio frame %d, but only %d were written; start another session", from, j.last)
	}
	j.sent, _ = slices.BinarySearchFunc(j.entries, from, func(e entry, at int64) int { return int(e.at - at) })
	j.unsent = 0
	for i := range j.entries[j.sent:] {
		j.unsent += j.entries[j.sent+i].size()
	}
	return max(0, j.highest+1-from), nil
}

// settle says that every utterance up to a frame is over.
func (j *journal) settle(through int64, now time.Time) {
	j.settled = max(j.settled, through)
	j.trim(now)
}

// trim drops what was sent and cannot be needed again. What is not sent stays, whatever became of it: raw frames have no
// number on the wire, so none may be left out. Age alone drops only what stands before the last frame: the rest may be
// the end of the session.
func (j *journal) trim(now time.Time) {
	n := 0
	for ; n < j.sent; n++ {
		e := &j.entries[n]
		old := j.keep > 0 && e.at <= j.last && now.Sub(e.written) > j.keep
		if e.at > j.settled && !old {
			break
		}
		j.size -= e.size()
		if e.audio {
			j.first = e.at + 1
		}
		*e = entry{} // the audio goes now, not with the array
	}
	j.entries = j.entries[n:]
	j.sent -= n
}
