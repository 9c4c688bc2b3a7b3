package client_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/wire"
)

// connScript is what the scheduler does on one connection.
type connScript func(*schedulerConn)

// fakeScheduler is a scheduler that runs the next script on each connection.
type fakeScheduler struct {
	t       testing.TB
	scripts []connScript
	always  connScript // in place of scripts, for any number of connections
	server  *httptest.Server
	client  *http.Client // nil: the default of the session

	mu      sync.Mutex
	conns   int
	running sync.WaitGroup
}

// newFakeScheduler listens on the loopback interface.
func newFakeScheduler(t testing.TB, scripts ...connScript) *fakeScheduler {
	f := &fakeScheduler{t: t, scripts: scripts}
	f.server = httptest.NewServer(f)
	t.Cleanup(f.close)
	return f
}

// newInMemoryScheduler uses pipes in place of the network, so that fake time can advance while it waits.
func newInMemoryScheduler(t testing.TB, scripts ...connScript) *fakeScheduler {
	f := &fakeScheduler{t: t, scripts: scripts}
	l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	f.server = &httptest.Server{Listener: l, Config: &http.Server{Handler: f}}
	f.server.Start()
	transport := &http.Transport{DialContext: l.dial}
	f.client = &http.Client{Transport: transport}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		f.close()
	})
	return f
}

// close waits until every script has run.
func (f *fakeScheduler) close() {
	f.server.Close() // first: no script may start while running is waited for
	f.running.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.always == nil && f.conns != len(f.scripts) {
		f.t.Errorf("%d connections were made, want %d", f.conns, len(f.scripts))
	}
}

func (f *fakeScheduler) config() client.Config {
	return client.Config{
		URL: f.server.URL, HTTPClient: f.client, Log: slog.New(slog.DiscardHandler), Start: wire.SessionStart{Langs: []string{"en", "es"}},
	}
}

func (f *fakeScheduler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	n := f.conns
	f.conns++
	f.running.Add(1)
	f.mu.Unlock()
	defer f.running.Done()
	play := f.always
	switch {
	case play != nil:
	case n < len(f.scripts):
		play = f.scripts[n]
	default:
		f.t.Errorf("connection %d was not expected", n+1)
		http.Error(w, "no script", http.StatusForbidden)
		return
	}
	p := &schedulerConn{t: f.t, request: r, response: w, number: n + 1}
	defer func() {
		if p.ws != nil {
			_ = p.ws.CloseNow()
		}
	}()
	play(p)
}

// schedulerConn is the scheduler's end of one connection.
type schedulerConn struct {
	t        testing.TB
	request  *http.Request
	response http.ResponseWriter
	number   int
	ws       *websocket.Conn
	acked    int64 // the last result that the client acknowledged
}

// fail reports an error and ends the script.
func (p *schedulerConn) fail(format string, args ...any) {
	p.t.Helper()
	p.t.Errorf("connection %d: %s", p.number, fmt.Sprintf(format, args...))
	if p.ws != nil {
		_ = p.ws.CloseNow()
	}
	runtime.Goexit()
}

func (p *schedulerConn) accept() *websocket.Conn {
	if p.ws == nil {
		conn, err := websocket.Accept(p.response, p.request, &websocket.AcceptOptions{Subprotocols: []string{wire.Subprotocol}})
		if err != nil {
			p.fail("accept: %v", err)
		}
		conn.SetReadLimit(wire.MaxFrame)
		p.ws = conn
	}
	return p.ws
}

// timeout is lost long a script waits for an expected message.
const timeout = 5 * time.Minute

// read returns the next message. It records and skips acknowledgements of results.
func (p *schedulerConn) read() (websocket.MessageType, []byte, error) {
	conn := p.accept()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	for {
		typ, body, err := conn.Read(ctx)
		var ack wire.SessionResultAck
		if kind, e := wire.TypeOf(body); err == nil && e == nil && typ == websocket.MessageText && kind == ack.Type() {
			if err := wire.Decode(body, &ack); err != nil || ack.Seq <= p.acked {
				p.fail("got %s after an acknowledgement of %d (%v)", body, p.acked, err)
			}
			p.acked = ack.Seq
			continue
		}
		return typ, body, err
	}
}

// expect reads the next message into a frame. It must have the frame's type.
func (p *schedulerConn) expect(into wire.Frame) {
	p.t.Helper()
	typ, body, err := p.read()
	if err != nil {
		p.fail("waiting for %s: %v", into.Type(), err)
	}
	if typ == websocket.MessageBinary {
		p.fail("got %d bytes of audio, want %s", len(body), into.Type())
	}
	if kind, err := wire.TypeOf(body); err != nil || kind != into.Type() {
		p.fail("got %s (%v), want %s", body, err, into.Type())
	}
	if err := wire.Decode(body, into); err != nil {
		p.fail("%v", err)
	}
}

// expectAudio reads binary frames and compares them.
func (p *schedulerConn) expectAudio(want ...string) {
	p.t.Helper()
	for _, w := range want {
		typ, body, err := p.read()
		if err != nil {
			p.fail("waiting for audio: %v", err)
		}
		if typ != websocket.MessageBinary || string(body) != w {
			p.fail("got %.60q, want the audio %q", body, w)
		}
	}
}

// expectFinal reads an empty chunk that ends an utterance and has the given number.
func (p *schedulerConn) expectFinal(seq int64) {
	p.t.Helper()
	var c wire.AudioChunk
	p.expect(&c)
	if !c.IsFinal || len(c.Data) > 0 || c.Seq != seq {
		p.fail("got %+v, want an empty final chunk with seq %d", c, seq)
	}
}

func (p *schedulerConn) send(frames ...wire.Frame) {
	p.t.Helper()
	if err := p.trySend(frames...); err != nil {
		p.fail("writing: %v", err)
	}
}

// trySend is send for connections that may be lost.
func (p *schedulerConn) trySend(frames ...wire.Frame) error {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	for _, f := range frames {
		text, err := wire.EncodeFrame(f)
		if err != nil {
			p.fail("%v", err)
		}
		if err := p.accept().Write(ctx, websocket.MessageText, text); err != nil {
			return err
		}
	}
	return nil
}

func (p *schedulerConn) write(typ websocket.MessageType, body []byte) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := p.accept().Write(ctx, typ, body); err != nil {
		p.fail("writing: %v", err)
	}
}

// sendSpeech sends a chunk of speech.
func (p *schedulerConn) sendSpeech(job string, chunk int, last bool, audio string) {
	p.t.Helper()
	body, err := wire.AppendBinary(nil, &wire.BinaryHeader{
		Kind: wire.KindTTS, ActiveJob: wire.ActiveJob{JobID: job, AttemptID: 1}, Chunk: chunk, Last: last,
	}, []byte(audio))
	if err != nil {
		p.fail("%v", err)
	}
	p.write(websocket.MessageBinary, body)
}

// drop closes the connection without a close frame.
func (p *schedulerConn) drop() { _ = p.accept().CloseNow() }

// closeWith closes the connection with an error frame and a close code.
func (p *schedulerConn) closeWith(code wire.CloseCode, e wire.Error) {
	p.send(wire.ErrorFrame{Error: e, Fatal: true})
	_ = p.ws.Close(websocket.StatusCode(code), "")
}

// defaultLimits are limits that no test reaches by accident.
var defaultLimits = wire.SessionLimits{FrameBytes: wire.MaxFrame, ResumeMS: 60_000, UtteranceMS: 60_000, ResultTimeoutMS: 30_000}

// answerStart answers session_start with raw framing, as an older scheduler does.
func (p *schedulerConn) answerStart(l wire.SessionLimits) wire.SessionStart {
	p.t.Helper()
	var start wire.SessionStart
	p.expect(&start)
	audio := start.Audio
	audio.Framing = wire.FramingRaw // as a scheduler that does not know the other one
	p.send(wire.SessionStarted{SessionID: "s-1", ResumeToken: "r-1", Langs: start.Langs, Audio: audio, Limits: l})
	return start
}

// answerResume answers session_resume, which must name the last durable message.
func (p *schedulerConn) answerResume(lastSeq, nextAudio int64) {
	p.t.Helper()
	p.answerResumeWith(lastSeq, wire.SessionResumed{SessionID: "s-1", Recovered: true, NextAudioSeq: nextAudio, LastSeq: lastSeq})
}

func (p *schedulerConn) answerResumeWith(lastSeq int64, answer wire.SessionResumed) {
	p.t.Helper()
	var r wire.SessionResume
	p.expect(&r)
	if want := (wire.SessionResume{SessionID: "s-1", ResumeToken: "r-1", LastSeq: lastSeq, KeepaliveMS: 1500}); r != want {
		p.fail("got %+v, want %+v", r, want)
	}
	p.send(answer)
}

// answerEnd answers session_end and closes the connection.
func (p *schedulerConn) answerEnd(totals wire.SessionEnded) {
	p.t.Helper()
	p.expect(&wire.SessionEnd{})
	p.send(totals)
	_ = p.ws.Close(websocket.StatusNormalClosure, "")
}

// pipeListener is a listener without a network.
type pipeListener struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 5010} }

// answerStartNumbered answers session_start with numbered framing.
func (p *schedulerConn) answerStartNumbered(l wire.SessionLimits) {
	p.t.Helper()
	var start wire.SessionStart
	p.expect(&start)
	if start.Audio.Framing != wire.FramingNumbered {
		p.fail("the client asks for framing %q", start.Audio.Framing)
	}
	p.send(wire.SessionStarted{SessionID: "s-1", ResumeToken: "r-1", Langs: start.Langs, Audio: start.Audio, Limits: l})
}

// expectNumbered reads numbered binary frames and compares them.
func (p *schedulerConn) expectNumbered(from int64, want ...string) {
	p.t.Helper()
	for i, w := range want {
		typ, body, err := p.read()
		if err != nil {
			p.fail("waiting for audio: %v", err)
		}
		seq := from + int64(i)
		if typ != websocket.MessageBinary || len(body) < 8 || binary.BigEndian.Uint64(body) != uint64(seq) || string(body[8:]) != w {
			p.fail("got %.60q, want frame %d with the audio %q", body, seq, w)
		}
	}
}

// resumeAndEnd is the script of a connection on which the session is resumed and ends.
func resumeAndEnd(lastSeq, nextAudio int64) connScript {
	return func(p *schedulerConn) {
		p.answerResume(lastSeq, nextAudio)
		p.answerEnd(wire.SessionEnded{SessionID: "s-1"})
	}
}
