package client

import (
	"fmt"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

const (
	// maxAudioBytes limits the journal for audio, sent or not. Other messages may exceed it, up to maxJournalBytes.
	maxAudioBytes   = 64 << 20
	maxJournalBytes = maxAudioBytes + 1<<20
	// maxUnsentBytes limits the audio that waits to be sent: a minute of the largest format.
	maxUnsentBytes = 12 << 20
	// entryOverhead is the memory of an entry without its audio.
	entryOverhead = 128
)

// entry is one message to the scheduler.
type entry struct {
	seq       int64 // the number of an audio frame; for another message, that of the next audio frame
	isAudio   bool
	data      []byte
	utterance wire.UtteranceStart // the properties of the utterance that the frame begins
	final     bool                // the frame ends its utterance
	frame     wire.Frame          // a message that is not audio
	writtenAt time.Time
}

func (e *entry) size() int { return entryOverhead + len(e.data) }

// journal holds, in order, the messages to the scheduler that are not sent, and the sent ones that may have to be resent.
// Audio frames are numbered from 1 over the session, including an empty one that ends an utterance. Other messages have no
// number; they keep their place among the frames and are resent with them.
type journal struct {
	maxAge time.Duration // after which the scheduler cannot ask for a frame again; 0: not known

	entries     []entry
	sent        int   // the number of entries that were sent on this connection
	firstSeq    int64 // the first audio frame that is kept, or the next one
	lastSeq     int64 // the last audio frame
	highestSent int64 // the last audio frame that was ever sent
	released    int64 // frames up to this one belong to utterances that are over
	size        int   // of all entries
	unsent      int   // size of the entries that are not sent
}

func newJournal(maxAge time.Duration) journal { return journal{maxAge: maxAge, firstSeq: 1} }

// isFull reports whether so much waits to be sent that no audio should be added.
func (j *journal) isFull() bool { return j.unsent >= maxUnsentBytes }

// add appends an entry and numbers it.
func (j *journal) add(e entry) {
	e.seq = j.lastSeq + 1
	if e.isAudio {
		j.lastSeq++
	}
	j.entries = append(j.entries, e)
	j.size += e.size()
	j.unsent += e.size()
	j.trim(e.writtenAt)
}

// next returns the next entry to send.
func (j *journal) next(now time.Time) (entry, bool) {
	if j.sent == len(j.entries) {
		return entry{}, false
	}
	e := j.entries[j.sent]
	j.sent++
	j.unsent -= e.size()
	if e.isAudio {
		j.highestSent = max(j.highestSent, e.seq)
	}
	j.trim(now)
	return e, true
}

// rewind continues at an audio frame on a new connection. It returns how many frames are resent.
func (j *journal) rewind(seq int64) (resent int64, err error) {
	seq = max(seq, 1)
	if seq < j.firstSeq {
		return 0, fmt.Errorf("%w (from frame %d on; the first one kept is %d)", ErrAudioDiscarded, seq, j.firstSeq)
	}
	if seq > j.lastSeq+1 {
		return 0, fmt.Errorf("client: the scheduler waits for audio frame %d, but only %d were written; start another session", seq,
			j.lastSeq)
	}
	j.sent, _ = slices.BinarySearchFunc(j.entries, seq, func(e entry, seq int64) int { return int(e.seq - seq) })
	j.unsent = 0
	for i := range j.entries[j.sent:] {
		j.unsent += j.entries[j.sent+i].size()
	}
	return max(0, j.highestSent+1-seq), nil
}

// release records that all utterances up to an audio frame are over.
func (j *journal) release(through int64, now time.Time) {
	j.released = max(j.released, through)
	j.trim(now)
}

// trim drops sent entries that cannot be needed again. Unsent entries stay, because raw frames have no number on the wire and
// none may be missing. An entry after the last audio frame is not dropped by age, because it may end the session.
func (j *journal) trim(now time.Time) {
	n := 0
	for ; n < j.sent; n++ {
		e := &j.entries[n]
		isOld := j.maxAge > 0 && e.seq <= j.lastSeq && now.Sub(e.writtenAt) > j.maxAge
		if e.seq > j.released && !isOld {
			break
		}
		j.size -= e.size()
		if e.isAudio {
			j.firstSeq = e.seq + 1
		}
		*e = entry{} // releases the audio before the array is
	}
	j.entries = j.entries[n:]
	j.sent -= n
}
