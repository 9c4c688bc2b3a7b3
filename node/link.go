package node

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/wire"
)

const (
	// mostQueued is how many messages wait to be written before the connection is given up: nobody reads.
	mostQueued = 65536
	// busyQueue is how many wait before partial results are left out.
	busyQueue = 256
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
	queue      []outgoing
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

// outgoing is what is to be written: a text frame, speech in as many binary frames as it needs, or the close.
type outgoing struct {
	frame   wire.Frame
	speech  []byte
	of      wire.ActiveJob // the speech
	written func()
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

// send queues messages. It never waits.
func (l *link) send(messages ...outgoing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	if l.queue = append(l.queue, messages...); len(l.queue) > mostQueued {
		l.endLocked(errUnread)
		return
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// say queues a text frame.
func (l *link) say(f wire.Frame) { l.send(outgoing{frame: f}) }

// busy reports that much is waiting to be written.
func (l *link) busy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue) > busyQueue
}

// finish closes it in good order, after everything that is queued.
func (l *link) finish() { l.send(outgoing{}) }

// end records why it ended, and ends it.
func (l *link) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endLocked(err)
}

func (l *link) endLocked(err error) {
	if !l.ended {
		l.ended, l.err, l.queue = true, err, nil
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
	l.moves = time.AfterFunc(d, func() {
		select {
		case l.leave <- struct{}{}:
		default:
		}
	})
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
		select {
		case <-l.ctx.Done():
			return
		case <-l.wake:
		}
		l.mu.Lock()
		batch := l.queue
		l.queue = nil
		l.mu.Unlock()
		for i := range batch {
			if err := l.put(&batch[i]); err != nil {
				l.lost(err)
				return
			}
		}
	}
}

func (l *link) put(m *outgoing) error {
	var err error
	switch {
	case m.frame != nil:
		var text []byte
		if text, err = wire.EncodeFrame(m.frame); err == nil {
			err = l.message(websocket.MessageText, text)
		}
	case m.speech != nil:
		err = l.chunks(m.of, m.speech)
	default:
		return l.conn.Close(websocket.StatusNormalClosure, "")
	}
	if err == nil && m.written != nil {
		m.written()
	}
	return err
}

// chunks writes speech in binary frames.
func (l *link) chunks(of wire.ActiveJob, speech []byte) error {
	for i := 0; ; i++ {
		data := speech[:min(len(speech), wire.MaxChunk)]
		speech = speech[len(data):]
		h := wire.BinaryHeader{Kind: wire.KindTTS, ActiveJob: of, Chunk: i, Last: len(speech) == 0}
		frame, err := wire.AppendBinary(nil, &h, data)
		if err != nil {
			return err
		}
		if err := l.message(websocket.MessageBinary, frame); err != nil || h.Last {
			return err
		}
	}
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
