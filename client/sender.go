package client

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// minKeepalive limits how often keepalives are sent.
const minKeepalive = 100 * time.Millisecond

// sender accepts the audio and the messages of a session, and sends them over its connections.
type sender struct {
	ctx        context.Context // of the session
	framing    framing
	isNumbered bool          // binary frames carry their number
	keepalive  time.Duration // how often to send something; 0: never
	queued     chan struct{} // of capacity 1: there may be something to send
	// token returns another session token; nil: there is no source of tokens.
	token func(context.Context) (string, error)

	mu            sync.Mutex // guards the fields below
	journal       journal
	pacer         pacer
	remainder     []byte              // the beginning of a sample whose end was not written yet
	nextUtterance wire.UtteranceStart // the properties of the next utterance
	isOpen        bool                // audio was written since the last utterance was ended
	isEnded       bool                // End was called
	received      int64               // the last durable message that was received
	acked         int64               // the last one that was acknowledged
	first         []wire.Frame        // what a resumed connection begins with
	tokenExpired  bool                // the connection needs another token
	space         chan struct{}       // closed when the journal has space again; nil: it is not awaited
}

func newSender(ctx context.Context, started *wire.SessionStarted) *sender {
	l := started.Limits
	s := &sender{
		ctx: ctx, framing: newFraming(started.Audio.Format(), l), isNumbered: started.Audio.Framing == wire.FramingNumbered,
		keepalive: milliseconds(l.IdleMS) / 3, queued: make(chan struct{}, 1),
		pacer: newPacer(l), journal: newJournal(maxAudioAge(l)),
	}
	if s.keepalive > 0 {
		s.keepalive = max(s.keepalive, minKeepalive)
	}
	return s
}

// maxAudioAge returns the age at which the scheduler no longer asks for audio; 0 if a limit is not known. When an utterance
// ends, its audio is at most as old as an utterance is long. Its terminal message follows in time, or after a resumption.
func maxAudioAge(l wire.SessionLimits) time.Duration {
	if l.UtteranceMS <= 0 || l.ResultTimeoutMS <= 0 || l.ResumeMS <= 0 {
		return 0
	}
	return milliseconds(l.UtteranceMS) + milliseconds(l.ResultTimeoutMS) + 2*milliseconds(l.ResumeMS)
}

// write implements Session.Write.
func (s *sender) write(audio []byte) (int, error) {
	if s.framing.isPackets && len(audio) > s.framing.maxBytes {
		return 0, fmt.Errorf("client: a packet of %d bytes is too large; the maximum is %d", len(audio), s.framing.maxBytes)
	}
	written := 0
	for written < len(audio) {
		n, err := s.writeFrame(audio[written:])
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// writeFrame adds one frame to the journal, as soon as the limits allow it.
func (s *sender) writeFrame(audio []byte) (int, error) {
	for {
		n, space, wait, err := s.tryWriteFrame(audio)
		if n > 0 || err != nil {
			return n, err
		}
		if err := s.waitFor(space, wait); err != nil {
			return 0, err
		}
	}
}

// waitFor waits for space in the journal, or for a time if it is given.
func (s *sender) waitFor(space <-chan struct{}, wait time.Duration) error {
	var expired <-chan time.Time
	if wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		expired = t.C
	}
	select {
	case <-space:
	case <-expired:
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
	return nil
}

// tryWriteFrame adds one frame to the journal, or returns what to wait for: space in the journal, or some time.
func (s *sender) tryWriteFrame(audio []byte) (n int, space <-chan struct{}, wait time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.check(maxAudioBytes); err != nil {
		return 0, nil, 0, err
	}
	if s.journal.isFull() {
		if s.space == nil {
			s.space = make(chan struct{})
		}
		return 0, s.space, 0, nil
	}
	n = min(len(audio), s.framing.maxBytes-len(s.remainder))
	size := len(s.remainder) + n
	size -= size % s.framing.sampleBytes
	if size == 0 {
		s.remainder = append(s.remainder, audio[:n]...)
		return n, nil, 0, nil
	}
	now := time.Now()
	if wait := s.pacer.take(now, s.framing.duration(size)); wait > 0 {
		return 0, nil, wait, nil
	}
	data := make([]byte, 0, len(s.remainder)+n)
	data = append(append(data, s.remainder...), audio[:n]...)
	s.remainder = append(s.remainder[:0], data[size:]...)
	s.journal.add(entry{isAudio: true, data: data[:size], utterance: s.nextUtterance, writtenAt: now})
	s.nextUtterance, s.isOpen = wire.UtteranceStart{}, true
	signal(s.queued)
	return n, nil, 0, nil
}

// check returns an error if nothing can be sent, or the journal has reached maxBytes. The caller holds the lock.
func (s *sender) check(maxBytes int) error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	if s.isEnded {
		return ErrEnded
	}
	s.journal.trim(time.Now())
	if s.journal.size >= maxBytes {
		return ErrTooMuchAudio
	}
	return nil
}

// begin implements Session.Begin.
func (s *sender) begin(u wire.UtteranceStart) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.check(maxJournalBytes); err != nil {
		return err
	}
	s.commitLocked()
	s.nextUtterance = u
	return nil
}

// commit implements Session.Commit.
func (s *sender) commit() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.check(maxJournalBytes); err != nil {
		return err
	}
	s.commitLocked()
	return nil
}

// commitLocked adds an empty frame that ends the open utterance. It has no effect if the scheduler ended the utterance before.
func (s *sender) commitLocked() {
	s.remainder = s.remainder[:0]
	if !s.isOpen {
		return
	}
	s.isOpen = false
	s.journal.add(entry{isAudio: true, final: true, writtenAt: time.Now()})
	signal(s.queued)
}

// cancel implements Session.Cancel.
func (s *sender) cancel(c wire.SessionCancel) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	isOpenUtterance := c == wire.SessionCancel{}
	if isOpenUtterance {
		s.remainder, s.nextUtterance = s.remainder[:0], wire.UtteranceStart{}
		if !s.isOpen {
			return s.check(maxJournalBytes)
		}
	}
	if err := s.addLocked(c); err != nil {
		return err
	}
	if isOpenUtterance {
		s.isOpen = false
	}
	return nil
}

// end implements Session.End.
func (s *sender) end() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isEnded {
		return nil
	}
	if err := s.addLocked(wire.SessionEnd{}); err != nil {
		return err
	}
	s.isEnded = true
	return nil
}

// sendFrame queues a message in its place among the audio.
func (s *sender) sendFrame(f wire.Frame) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addLocked(f)
}

func (s *sender) addLocked(f wire.Frame) error {
	if err := s.check(maxJournalBytes); err != nil {
		return err
	}
	s.journal.add(entry{frame: f, writtenAt: time.Now()})
	signal(s.queued)
	return nil
}

// acknowledge queues the acknowledgement of a durable message.
func (s *sender) acknowledge(seq int64) {
	s.mu.Lock()
	s.received = max(s.received, seq)
	s.mu.Unlock()
	signal(s.queued)
}

// renewToken makes the sender send another token, if there is a source of tokens.
func (s *sender) renewToken() {
	s.mu.Lock()
	s.tokenExpired = s.token != nil
	s.mu.Unlock()
	signal(s.queued)
}

// tokenTimeout limits how long another token is awaited. Audio waits meanwhile.
const tokenTimeout = 10 * time.Second

// sendToken sends another token if the connection needs one. Without one the scheduler closes the connection.
func (s *sender) sendToken(conn *connection) error {
	s.mu.Lock()
	needed := s.tokenExpired
	s.tokenExpired = false
	s.mu.Unlock()
	if !needed {
		return nil
	}
	ctx, cancel := context.WithTimeout(conn.ctx, tokenTimeout)
	defer cancel()
	token, err := s.token(ctx)
	if err != nil {
		return &ConnectionError{Err: fmt.Errorf("no other session token: %w", err)}
	}
	return conn.send(conn.ctx, wire.SessionUpdate{Token: token})
}

// release drops audio of utterances that are over.
func (s *sender) release(through int64) {
	s.mu.Lock()
	s.journal.release(through, time.Now())
	s.mu.Unlock()
}

// rewind prepares a resumed connection. It continues at the audio that the scheduler asks for, and reports the utterances
// whose audio is no longer kept. It returns how many frames are resent.
func (s *sender) rewind(r *wire.SessionResumed) (resent int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acked = s.received // the resumption has acknowledged them
	seq := r.NextAudioSeq
	s.first = nil
	for _, span := range r.AudioNeeded {
		if span.FirstSeq < s.journal.firstSeq && s.isNumbered {
			s.first = append(s.first, wire.AudioGone{UtteranceIndex: span.UtteranceIndex})
			seq = s.journal.firstSeq
		}
	}
	return s.journal.rewind(seq)
}

// run sends queued messages, and keepalives in between, until the connection ends.
func (s *sender) run(conn *connection) {
	idle := time.NewTimer(s.keepalive)
	defer idle.Stop()
	if s.keepalive == 0 {
		idle.Stop()
	}
	for {
		if err := s.sendFirst(conn); err != nil {
			conn.dropAfterRead(err)
			return
		}
		e, ok := s.next()
		if !ok {
			select {
			case <-s.queued:
				continue
			case <-idle.C:
				e = entry{frame: wire.Keepalive{}}
			case <-conn.ctx.Done():
				return
			}
		}
		if err := conn.sendEntry(&e, s.isNumbered); err != nil {
			conn.dropAfterRead(err)
			return
		}
		if s.keepalive > 0 {
			idle.Reset(s.keepalive)
		}
	}
}

// next takes the next entry of the journal, and wakes writers that wait for space.
func (s *sender) next() (entry, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.journal.next(time.Now())
	if !s.journal.isFull() && s.space != nil {
		close(s.space)
		s.space = nil
	}
	return e, ok
}

// sendFirst sends what precedes audio: which audio is gone, and the acknowledgement of results.
func (s *sender) sendFirst(conn *connection) error {
	s.mu.Lock()
	first := s.first
	s.first = nil
	s.mu.Unlock()
	if err := s.sendToken(conn); err != nil {
		return err
	}
	s.mu.Lock()
	if s.received > s.acked {
		s.acked = s.received
		first = append(first, wire.SessionResultAck{Seq: s.received})
	}
	s.mu.Unlock()
	for _, f := range first {
		if err := conn.send(conn.ctx, f); err != nil {
			return err
		}
	}
	return nil
}
