package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/wire/oggopus"
)

// maxAudio bounds the audio of one job: a minute of the best that may be spoken is a fifth of it.
const maxAudio = 64 << 20

// sound is the audio of a job as it comes in.
type sound struct {
	packets bool // each chunk is a packet; set before the first comes

	mu    sync.Mutex
	bytes []byte
	ends  []int     // where each packet ends
	next  int       // the chunk that comes next
	moved time.Time // when something last came, or could begin to
	err   error
	whole bool
	done  chan struct{} // closed when all is there, or never will be
}

func (s *sound) begin(at time.Time) { s.moved, s.done = at, make(chan struct{}) }

// add takes a chunk. One that is there already, because it was sent again, is left aside, and so is one that comes before
// its turn.
func (s *sound) add(chunk int, data []byte, last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moved = time.Now()
	if s.whole || chunk != s.next {
		return
	}
	s.next++
	if len(s.bytes)+len(data) > maxAudio {
		s.err, s.bytes, last = fmt.Errorf("the audio is larger than %d bytes: %w", maxAudio, Fail(reasonAudioLost)), nil, true
	}
	if s.packets && len(s.ends) == oggopus.MaxPackets && len(data) > 0 {
		s.err, s.bytes, last = unusable(fmt.Errorf("it has more than %d packets", oggopus.MaxPackets)), nil, true
	}
	if s.err == nil {
		s.bytes = append(s.bytes, data...)
		if s.packets && len(data) > 0 { // the last chunk may be empty
			s.ends = append(s.ends, len(s.bytes))
		}
	}
	if last {
		s.whole = true
		close(s.done)
	}
}

// count is how many chunks have come, without a gap from the first, as far as they are reported.
func (s *sound) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return min(s.next, mostReported)
}

// split takes audio that is all there apart.
func (s *sound) split() ([][]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	packets, from := make([][]byte, len(s.ends)), 0
	for i, end := range s.ends {
		packets[i] = s.bytes[from:end:end]
		if _, err := oggopus.Samples(packets[i]); err != nil {
			return nil, unusable(fmt.Errorf("packet %d: %w", i, err))
		}
		from = end
	}
	return packets, nil
}

// expect says that audio may come again: there is a connection.
func (s *sound) expect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moved = time.Now()
}

// lose says that what has not come will not: the connection over which it came is lost, and the instance of this one does
// not have it. It changes nothing of audio that is all there.
func (s *sound) lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.whole {
		return
	}
	s.err, s.bytes, s.whole = fmt.Errorf("the rest of the audio was lost with the connection: %w", Fail(reasonAudioLost)), nil, true
	close(s.done)
}

// wait returns the audio when all of it is there. When nothing comes for the given time it is lost: the job had better go
// to a node that can have it than wait for its deadline.
func (s *sound) wait(ctx context.Context, stall time.Duration) ([]byte, error) {
	t := time.NewTimer(stall)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.done:
			return s.bytes, s.err
		case <-t.C:
		}
		s.mu.Lock()
		left := stall - time.Since(s.moved)
		s.mu.Unlock()
		if left <= 0 {
			return nil, fmt.Errorf("no audio came for %v: %w", stall, Fail(reasonAudioLost))
		}
		t.Reset(left)
	}
}

// fetch gets the audio from where the scheduler keeps it, once.
func (s *sound) fetch(ctx context.Context, t *task, address string) ([]byte, error) {
	s.mu.Lock()
	whole, b, err := s.whole, s.bytes, s.err
	s.mu.Unlock()
	if whole {
		return b, err
	}
	b, err = t.get(ctx, address)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes, s.whole = b, true
	return b, nil
}
