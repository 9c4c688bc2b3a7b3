package node

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/wire"
)

const (
	// closeGrace is how long to wait for the scheduler's error and close code after a write failed.
	closeGrace = time.Second
	// maxQueued is how many messages may wait to be written. A connection with more is closed: its peer does not read.
	maxQueued = 65536
	// maxQueuedForPartials is how many messages may wait before partial results are omitted.
	maxQueuedForPartials = 256
)

var errSilent = errors.New("nothing arrives from the scheduler")

var errNotReading = errors.New("the scheduler does not read its messages")

// connection is a registered WebSocket connection to the scheduler. Senders queue messages and never wait; one goroutine
// writes them.
type connection struct {
	ws           *websocket.Conn
	base         *url.URL // of the scheduler's HTTP API
	openedAt     time.Time
	writeTimeout time.Duration

	ctx        context.Context // of the goroutines
	cancel     context.CancelFunc
	goroutines sync.WaitGroup
	readerDone chan struct{} // closed when the reader has ended
	done       chan struct{} // closed when all goroutines have
	queued     chan struct{} // of capacity 1: there is something to write
	received   atomic.Bool   // something arrived since the last check
	moveDue    chan struct{} // of capacity 1: it is time to connect to another instance
	early      []message     // messages that arrived before the answer to the registration

	mu         sync.Mutex
	queue      sendQueue
	ended      bool
	err        error       // why it ended
	reported   *wire.Error // the fatal error that the scheduler sent
	moveTimer  *time.Timer
	superseded bool // a later registration of this node was sent, which may close this connection
}

// message is a message of the scheduler.
type message struct {
	kind websocket.MessageType
	data []byte
}

func newConnection(ctx context.Context, ws *websocket.Conn, base *url.URL, writeTimeout time.Duration) *connection {
	c := &connection{
		ws: ws, base: base, openedAt: time.Now(), writeTimeout: writeTimeout,
		readerDone: make(chan struct{}), done: make(chan struct{}), queued: make(chan struct{}, 1), moveDue: make(chan struct{}, 1),
	}
	c.ctx, c.cancel = context.WithCancel(ctx)
	return c
}

// start runs the reader, the writer and other loops until the connection ends. Early messages are received first.
func (c *connection) start(receive func(message), loops ...func(context.Context)) {
	c.goroutines.Go(func() {
		for _, m := range c.early {
			receive(m)
		}
		c.early = nil
		c.readLoop(receive)
	})
	c.goroutines.Go(c.writeLoop)
	for _, loop := range loops {
		c.goroutines.Go(func() { loop(c.ctx) })
	}
	go func() {
		c.goroutines.Wait()
		_ = c.ws.CloseNow()
		close(c.done)
	}()
}

// stop ends the connection and waits for its goroutines.
func (c *connection) stop() {
	c.cancel()
	<-c.done
}

// age returns how long the connection has lasted.
func (c *connection) age() time.Duration { return time.Since(c.openedAt) }

// enqueue changes the queue of the writer. It never waits.
func (c *connection) enqueue(change func(*sendQueue)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	if change(&c.queue); c.queue.len() > maxQueued {
		c.endLocked(errNotReading)
		return
	}
	signal(c.queued)
}

// send queues messages.
func (c *connection) send(frames ...wire.Frame) {
	c.enqueue(func(q *sendQueue) {
		for _, f := range frames {
			q.messages = append(q.messages, queuedMessage{frame: f})
		}
	})
}

// isCongested reports whether so many messages wait that partial results should be omitted.
func (c *connection) isCongested() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queue.messages) > maxQueuedForPartials
}

// closeWhenSent closes the connection with a normal close code after all queued messages.
func (c *connection) closeWhenSent() { c.enqueue(func(q *sendQueue) { q.closing = true }) }

// discardSpeech drops the queued speech of a job.
func (c *connection) discardSpeech(key wire.ActiveJob) {
	c.enqueue(func(q *sendQueue) { q.discardSpeech(key) })
}

// end ends the connection with an error. The first error is kept.
func (c *connection) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLocked(err)
}

func (c *connection) endLocked(err error) {
	if !c.ended {
		c.ended, c.err, c.queue = true, err, sendQueue{}
		if c.moveTimer != nil {
			c.moveTimer.Stop()
		}
		c.cancel()
	}
}

// closeError returns why the connection ended. A close code that forbids a retry gives a *RefusedError, unless a later
// registration of this node replaced the connection.
func (c *connection) closeError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	code := wire.CloseCode(websocket.CloseStatus(c.err))
	if code.Retry() || code == wire.CloseReplaced && c.superseded {
		return c.err
	}
	return &RefusedError{Code: code, Err: c.reported}
}

// supersede records that a later registration of this node may replace this connection.
func (c *connection) supersede() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.superseded = true
}

// recordError keeps the fatal error that precedes a close.
func (c *connection) recordError(e *wire.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reported = e
}

// goAway schedules the move to another instance at a random time in the first half of the given time: in the second half
// the scheduler begins to close the connections that are left.
func (c *connection) goAway(g *wire.GoAway) {
	c.moveAfter(rand.N(max(milliseconds(g.ReconnectMS)/2, 1)))
}

// moveAfter schedules the move to another instance.
func (c *connection) moveAfter(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	if c.moveTimer != nil {
		c.moveTimer.Stop()
	}
	c.moveTimer = time.AfterFunc(d, func() { signal(c.moveDue) })
}

func (c *connection) readLoop(receive func(message)) {
	defer close(c.readerDone)
	for {
		kind, r, err := c.ws.Reader(c.ctx)
		var data []byte
		if err == nil {
			data, err = io.ReadAll(arrivals{r, &c.received})
		}
		if err != nil {
			c.end(err)
			return
		}
		receive(message{kind, data})
	}
}

// arrivals reads a message and records that something arrives, because a long message may take longer than silence is allowed to last.
type arrivals struct {
	io.Reader
	received *atomic.Bool
}

func (a arrivals) Read(p []byte) (int, error) {
	n, err := a.Reader.Read(p)
	a.received.Store(true)
	return n, err
}

func (c *connection) writeLoop() {
	for {
		written, err := c.writeNext()
		switch {
		case err != nil:
			c.endAfterRead(err)
			return
		case written:
			continue
		}
		select {
		case <-c.ctx.Done():
			return
		case <-c.queued:
		}
	}
}

// writeNext writes the next message or chunk of speech. It reports whether there was one.
func (c *connection) writeNext() (written bool, err error) {
	c.mu.Lock()
	m, isMessage := c.queue.nextMessage()
	var header wire.BinaryHeader
	var data []byte
	isSpeech := false
	if !isMessage {
		header, data, m.onWritten, isSpeech = c.queue.nextSpeechChunk()
	}
	closing := c.queue.closing && !isMessage && !isSpeech
	c.queue.closing = c.queue.closing && !closing
	c.mu.Unlock()

	switch {
	case isMessage:
		var text []byte
		if text, err = wire.EncodeFrame(m.frame); err == nil {
			err = c.write(websocket.MessageText, text)
		}
	case isSpeech:
		var frame []byte
		if frame, err = wire.AppendBinary(nil, &header, data); err == nil {
			err = c.write(websocket.MessageBinary, frame)
		}
	case closing:
		return false, c.ws.Close(websocket.StatusNormalClosure, "")
	default:
		return false, nil
	}
	if err == nil && m.onWritten != nil {
		m.onWritten()
	}
	return true, err
}

func (c *connection) write(kind websocket.MessageType, data []byte) error {
	ctx, cancel := context.WithTimeout(c.ctx, c.writeTimeout)
	defer cancel()
	return c.ws.Write(ctx, kind, data)
}

// ping reports whether the scheduler answers a ping, and ends the connection if it does not.
func (c *connection) ping(ctx context.Context, timeout time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := c.ws.Ping(ctx)
	if err != nil {
		c.endAfterRead(errNoPong)
	}
	return err == nil
}

// awaitSilence ends the connection when nothing has arrived for two and a half times the interval of keepalives. It counts checks: a
// process that stood still, or got no processor, for longer than that misses one of them only, and then reads what has arrived meanwhile.
func (c *connection) awaitSilence(ctx context.Context, keepalive time.Duration) {
	tick := time.NewTicker(keepalive / 2)
	defer tick.Stop()
	for silent := 0; silent < 5; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if silent++; c.received.Swap(false) {
			silent = 0
		}
	}
	c.end(errSilent)
}

// endAfterRead ends the connection after a failed write. It gives the reader a moment to receive the scheduler's own error
// first.
func (c *connection) endAfterRead(err error) {
	t := time.NewTimer(closeGrace)
	defer t.Stop()
	select {
	case <-c.readerDone:
	case <-c.ctx.Done():
	case <-t.C:
	}
	c.end(err)
}

// sendQueue holds what waits to be written to a connection. Messages go before speech, so that long speech does not delay a
// heartbeat or an acknowledgement; speech still follows its result, which is queued before it.
type sendQueue struct {
	messages []queuedMessage
	speech   []*queuedSpeech
	closing  bool // the connection is closed when the queue is empty
}

// queuedMessage is a message and a function to call after it was written.
type queuedMessage struct {
	frame     wire.Frame
	onWritten func()
}

// queuedSpeech is speech of which some chunks may be written.
type queuedSpeech struct {
	key       wire.ActiveJob
	speech    *speech
	nextChunk int
	onWritten func() // called after the last chunk was written
}

func (q *sendQueue) len() int { return len(q.messages) + len(q.speech) }

// nextMessage removes the first message.
func (q *sendQueue) nextMessage() (queuedMessage, bool) {
	if len(q.messages) == 0 {
		return queuedMessage{}, false
	}
	m := q.messages[0]
	q.messages[0] = queuedMessage{}
	q.messages = q.messages[1:]
	return m, true
}

// nextSpeechChunk removes the first chunk of the first speech. It returns onWritten with the last chunk only.
func (q *sendQueue) nextSpeechChunk() (h wire.BinaryHeader, data []byte, onWritten func(), ok bool) {
	if len(q.speech) == 0 {
		return h, nil, nil, false
	}
	s := q.speech[0]
	chunks := s.speech.chunks
	data = chunks[s.nextChunk]
	h = wire.BinaryHeader{Kind: wire.KindTTS, ActiveJob: s.key, Chunk: s.nextChunk, Last: s.nextChunk == len(chunks)-1}
	if s.nextChunk == 0 {
		h.Audio = &s.speech.format
	}
	s.nextChunk++
	if h.Last {
		q.speech[0] = nil
		q.speech = q.speech[1:]
		onWritten = s.onWritten
	}
	return h, data, onWritten, true
}

// discardSpeech removes the speech of a job.
func (q *sendQueue) discardSpeech(key wire.ActiveJob) {
	q.speech = slices.DeleteFunc(q.speech, func(s *queuedSpeech) bool { return s.key == key })
}
