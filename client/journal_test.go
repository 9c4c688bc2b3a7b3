package client

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lingua-scheduler/lingua/wire"
)

// On every connection the journal sends the audio from the requested frame on, without a gap, and every other message in its
// place.
func TestJournalResendsFromRequestedFrame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(0, 0)
		j := newJournal(0)
		var all []string // every entry, in order
		var audio []int  // the index in all of audio frame n+1
		next := 0        // the index in all of the next entry to send
		released := int64(0)
		name := func(e entry) string {
			if e.isAudio {
				return string(e.data)
			}
			return e.frame.(wire.SessionUpdate).SrcLang
		}
		t.Repeat(map[string]func(*rapid.T){
			"add audio": func(*rapid.T) {
				audio = append(audio, len(all))
				all = append(all, fmt.Sprint("audio ", len(audio)))
				j.add(entry{isAudio: true, data: []byte(all[len(all)-1]), writtenAt: now})
			},
			"add a message": func(*rapid.T) {
				all = append(all, fmt.Sprint("message ", len(all)))
				j.add(entry{frame: wire.SessionUpdate{SrcLang: all[len(all)-1]}, writtenAt: now})
			},
			"send": func(t *rapid.T) {
				e, ok := j.next(now)
				if ok != (next < len(all)) {
					t.Fatalf("an entry to send: %v; %d of %d were sent", ok, next, len(all))
				}
				if !ok {
					return
				}
				if name(e) != all[next] {
					t.Fatalf("sent %q, want %q", name(e), all[next])
				}
				next++
			},
			"release": func(t *rapid.T) {
				sent := int64(0)
				for sent < int64(len(audio)) && audio[sent] < next {
					sent++
				}
				released = max(released, rapid.Int64Range(0, sent).Draw(t, "through"))
				j.release(released, now)
			},
			"resume": func(t *rapid.T) {
				from := rapid.Int64Range(released+1, max(released+1, int64(len(audio)+1))).Draw(t, "from")
				if _, err := j.rewind(from); err != nil {
					t.Fatal(err)
				}
				next = 0 // messages between the previous frame and this one are resent
				if from > 1 {
					next = audio[from-2] + 1
				}
			},
			"": func(t *rapid.T) {
				size, unsent := 0, 0
				for i := range j.entries {
					size += j.entries[i].size()
					if i >= j.sent {
						unsent += j.entries[i].size()
					}
				}
				if size != j.size || unsent != j.unsent {
					t.Fatalf("sizes are %d and %d, want %d and %d", j.size, j.unsent, size, unsent)
				}
				if j.sent > 0 && j.entries[0].seq <= released {
					t.Fatalf("frame %d is kept, although all up to %d are over", j.entries[0].seq, released)
				}
			},
		})
	})
}

// Audio that the scheduler can no longer ask for is dropped, but not the last messages.
func TestJournalDropsOldAudio(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	j := newJournal(time.Minute)
	j.add(entry{isAudio: true, writtenAt: now})
	j.add(entry{isAudio: true, writtenAt: now.Add(time.Second)})
	j.add(entry{frame: wire.SessionEnd{}, writtenAt: now.Add(time.Second)})
	later := now.Add(time.Minute + time.Millisecond)
	if j.trim(later); len(j.entries) != 3 {
		t.Fatal("an unsent entry was dropped")
	}
	for range 3 {
		j.next(now)
	}
	if j.trim(later); j.firstSeq != 2 {
		t.Errorf("the first frame kept is %d, want 2", j.firstSeq)
	}
	if j.trim(later.Add(time.Hour)); len(j.entries) != 1 || j.firstSeq != 3 {
		t.Errorf("%d entries are kept, from frame %d on", len(j.entries), j.firstSeq)
	}
	if resent, err := j.rewind(3); resent != 0 || err != nil {
		t.Errorf("%d frames are resent, %v", resent, err)
	}
	if e, ok := j.next(later); !ok || e.frame != (wire.SessionEnd{}) {
		t.Errorf("got %+v, want the end", e)
	}
}
