package node

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/url"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/wire"
)

const (
	// mostEarly is how many messages may come before the registration is answered, and mostEarlySize how large they are.
	mostEarly     = 1024
	mostEarlySize = 32 << 20
	// lastWords is how long to wait for what the scheduler said before it closed.
	lastWords = time.Second
)

var errUnread = errors.New("the scheduler does not read what it is sent")

// link is one connection to the scheduler that the node is registered over. Whoever has something to send queues it and
// goes on; one goroutine writes.
type link struct {
	conn  *websocket.Conn
	base  *url.URL // where the scheduler is over HTTP
	since time.Time
	write time.Duration // the longest one message may take

	ctx    context.Context // of its goroutines
	cancel context.CancelFunc
	work   sync.WaitGroup
	read   chan struct{} // closed when the reader has ended
	done   chan struct{} // closed when everything has
	wake   chan struct{} // something is queued
	leave  chan struct{} // it is time to connect anew
	early  []received    // what came before the registration was answered

	mu         sync.Mutex
	out        outbox
	ended      bool
	err        error // why it ended
	said       *wire.Error
	moves      *time.Timer // until leave
	superseded bool        // a newer connection of our own has registered, or tried to
}

// received is a message of the scheduler.
type received struct {
	kind websocket.MessageType
	data []byte
}

func newLink(ctx context.Context, conn *websocket.Conn, write time.Duration) *link {
	l := &link{
		conn: conn, since: time.Now(), write: write,
		read: make(chan struct{}), done: make(chan struct{}), wake: make(chan struct{}, 1), leave: make(chan struct{}, 1),
	}
	l.ctx, l.cancel = context.WithCancel(ctx)
	return l
}

// start lets it read, write and do its duties until it is lost or its context ends. What came early is read first.
func (l *link) start(receive func(received), duties ...func(context.Context)) {
	l.work.Go(func() {
		for _, m := range l.early {
			receive(m)
		}
		l.early = nil
		l.reading(receive)
	})
	l.work.Go(l.writing)
	for _, duty := range duties {
		l.work.Go(func() { duty(l.ctx) })
	}
	go func() {
		l.work.Wait()
		_ = l.conn.CloseNow()
		close(l.done)
	}()
}

// drop ends it and waits until it has.
func (l *link) drop() {
	l.cancel()
	<-l.done
}

// send queues something. It never waits.
func (l *link) send(queue func(*outbox)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	if queue(&l.out); l.out.len() > mostQueued {
		l.endLocked(errUnread)
		return
	}
	signal(l.wake)
}

// say queues messages.
func (l *link) say(frames ...wire.Frame) {
	l.send(func(o *outbox) {
		for _, f := range frames {
			o.messages = append(o.messages, outgoing{frame: f})
		}
	})
}

// busy reports that much is waiting to be written.
func (l *link) busy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.out.messages) > busyQueue
}

// finish closes it in good order, after everything that is queued.
func (l *link) finish() { l.send(func(o *outbox) { o.closing = true }) }

// silence drops what is left of the speech of a job.
func (l *link) silence(of wire.ActiveJob) { l.send(func(o *outbox) { o.silence(of) }) }

// end records why it ended, and ends it.
func (l *link) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endLocked(err)
}

func (l *link) endLocked(err error) {
	if !l.ended {
		l.ended, l.err, l.out = true, err, outbox{}
		if l.moves != nil {
			l.moves.Stop()
		}
		l.cancel()
	}
}

// why says what ended it. The scheduler's word that the node shall not come back is an error of its own; that it was
// replaced by a connection of our own is not.
func (l *link) why() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	code := wire.CloseCode(websocket.CloseStatus(l.err))
	if code.Retry() || code == wire.CloseReplaced && l.superseded {
		return l.err
	}
	return &Refused{Code: code, Said: l.said}
}

// supersede says that a newer connection of our own may replace this one from now on.
func (l *link) supersede() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.superseded = true
}

// remember keeps what the scheduler said before it closes the connection.
func (l *link) remember(said *wire.Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = said
}

// goAway makes it leave at a random moment of the first half of the time it is given: in the second half the scheduler
// begins to close those who stay.
func (l *link) goAway(g *wire.GoAway) { l.leaveIn(rand.N(max(milliseconds(g.ReconnectMS)/2, 1))) }

// leaveIn makes it leave after a time.
func (l *link) leaveIn(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	if l.moves != nil {
		l.moves.Stop()
	}
	l.moves = time.AfterFunc(d, func() { signal(l.leave) })
}

func (l *link) reading(receive func(received)) {
	defer close(l.read)
	for {
		kind, data, err := l.conn.Read(l.ctx)
		if err != nil {
			l.end(err)
			return
		}
		receive(received{kind, data})
	}
}

func (l *link) writing() {
	for {
		more, err := l.put()
		switch {
		case err != nil:
			l.lost(err)
			return
		case more:
			continue
		}
		select {
		case <-l.ctx.Done():
			return
		case <-l.wake:
		}
	}
}

// put writes what is next, and reports whether there was something.
func (l *link) put() (more bool, err error) {
	l.mu.Lock()
	m, isMessage := l.out.message()
	var h wire.BinaryHeader
	var data []byte
	isSpeech := false
	if !isMessage {
		h, data, m.written, isSpeech = l.out.piece()
	}
	closing := l.out.closing && !isMessage && !isSpeech
	l.out.closing = l.out.closing && !closing
	l.mu.Unlock()

	switch {
	case isMessage:
		var text []byte
		if text, err = wire.EncodeFrame(m.frame); err == nil {
			err = l.message(websocket.MessageText, text)
		}
	case isSpeech:
		var frame []byte
		if frame, err = wire.AppendBinary(nil, &h, data); err == nil {
			err = l.message(websocket.MessageBinary, frame)
		}
	case closing:
		return false, l.conn.Close(websocket.StatusNormalClosure, "")
	default:
		return false, nil
	}
	if err == nil && m.written != nil {
		m.written()
	}
	return true, err
}

func (l *link) message(kind websocket.MessageType, data []byte) error {
	ctx, cancel := context.WithTimeout(l.ctx, l.write)
	defer cancel()
	return l.conn.Write(ctx, kind, data)
}

// lost ends the connection because it could not be written to. The reader has a moment first: the scheduler may have said
// why.
func (l *link) lost(err error) {
	t := time.NewTimer(lastWords)
	defer t.Stop()
	select {
	case <-l.read:
	case <-l.ctx.Done():
	case <-t.C:
	}
	l.end(err)
}

// held is how long the connection has lasted.
func (l *link) held() time.Duration { return time.Since(l.since) }
