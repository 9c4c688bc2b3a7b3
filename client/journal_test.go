package client

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lingua-scheduler/lingua/wire"
)

// TestJournal: on every connection, what is sent is the audio from where it was asked for on, without a gap, and every
// other message in its place.
func TestJournal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(0, 0)
		j := newJournal(0)
		var all []string // everything that was ever said, audio and not, in order
		var audio []int  // where audio frame n+1 stands in it
		at := 0          // what should be sent next
		settled := int64(0)
		name := func(e entry) string {
			if e.audio {
				return string(e.data)
			}
			return e.frame.(wire.SessionUpdate).SrcLang
		}
		t.Repeat(map[string]func(*rapid.T){
			"write": func(*rapid.T) {
				audio = append(audio, len(all))
				all = append(all, fmt.Sprint("audio ", len(audio)))
				j.add(entry{audio: true, data: []byte(all[len(all)-1]), written: now})
			},
			"say": func(*rapid.T) {
				all = append(all, fmt.Sprint("message ", len(all)))
				j.add(entry{frame: wire.SessionUpdate{SrcLang: all[len(all)-1]}, written: now})
			},
			"send": func(t *rapid.T) {
				e, ok := j.next(now)
				if ok != (at < len(all)) {
					t.Fatalf("something to send: %v; %d of %d were sent", ok, at, len(all))
				}
				if !ok {
					return
				}
				if name(e) != all[at] {
					t.Fatalf("sent %q, want %q", name(e), all[at])
				}
				at++
			},
			"settle": func(t *rapid.T) {
				arrived := int64(0)
				for arrived < int64(len(audio)) && audio[arrived] < at {
					arrived++
				}
				settled = max(settled, rapid.Int64Range(0, arrived).Draw(t, "through"))
				j.settle(settled, now)
			},
			"resume": func(t *rapid.T) {
				from := rapid.Int64Range(settled+1, max(settled+1, int64(len(audio)+1))).Draw(t, "from")
				if _, err := j.rewind(from); err != nil {
					t.Fatal(err)
				}
				at = 0 // what stands between the frame before and this one is said again
				if from > 1 {
					at = audio[from-2] + 1
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
				if j.sent > 0 && j.entries[0].at <= settled {
					t.Fatalf("frame %d is kept, and all up to %d are over", j.entries[0].at, settled)
				}
			},
		})
	})
}

// TestAge: audio that nobody can ask for any more is dropped, but not what was said last.
func TestAge(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	j := newJournal(time.Minute)
	j.add(entry{audio: true, written: now})
	j.add(entry{audio: true, written: now.Add(time.Second)})
	j.add(entry{frame: wire.SessionEnd{}, written: now.Add(time.Second)})
	later := now.Add(time.Minute + time.Millisecond)
	if j.trim(later); len(j.entries) != 3 {
		t.Fatal("what was not sent was dropped")
	}
	for range 3 {
		j.next(now)
	}
	if j.trim(later); j.first != 2 {
		t.Errorf("the first frame that is kept is %d, want 2", j.first)
	}
	if j.trim(later.Add(time.Hour)); len(j.entries) != 1 || j.first != 3 {
		t.Errorf("%d entries are kept, from frame %d on", len(j.entries), j.first)
	}
	if again, err := j.rewind(3); again != 0 || err != nil {
		t.Errorf("%d frames again, %v", again, err)
	}
	if e, ok := j.next(later); !ok || e.frame != (wire.SessionEnd{}) {
		t.Errorf("got %+v, want the end", e)
	}
}
