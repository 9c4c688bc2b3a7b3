package client_test

import (
	"context"
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

// script is what a scheduler does with one connection.
type script func(*peer)

// fake is a scheduler that does as it is told: each connection plays the next script.
type fake struct {
	t       testing.TB
	scripts []script
	always  script // instead of scripts, for any number of connections
	server  *httptest.Server
	client  *http.Client // nil: any will do

	mu    sync.Mutex
	conns int
	left  sync.WaitGroup
}

// newFake listens on loopback.
func newFake(t testing.TB, scripts ...script) *fake {
	f := &fake{t: t, scripts: scripts}
	f.server = httptest.NewServer(f)
	t.Cleanup(f.close)
	return f
}

// newPipedFake needs no network, so that time in a bubble passes while it waits.
func newPipedFake(t testing.TB, scripts ...script) *fake {
	f := &fake{t: t, scripts: scripts}
	l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
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

// close waits until every script was played.
func (f *fake) close() {
	f.left.Wait()
	f.server.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.always == nil && f.conns != len(f.scripts) {
		f.t.Errorf("%d connections were made, want %d", f.conns, len(f.scripts))
	}
}

func (f *fake) config() client.Config {
	return client.Config{
		URL: f.server.URL, HTTPClient: f.client, Log: slog.New(slog.DiscardHandler), Start: wire.SessionStart{Langs: []string{"en", "es"}},
	}
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	n := f.conns
	f.conns++
	f.left.Add(1)
	f.mu.Unlock()
	defer f.left.Done()
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
	p := &peer{t: f.t, request: r, answer: w, number: n + 1}
	defer func() {
		if p.conn != nil {
			_ = p.conn.CloseNow()
		}
	}()
	play(p)
}

// peer is the scheduler's end of one connection.
type peer struct {
	t       testing.TB
	request *http.Request
	answer  http.ResponseWriter
	number  int
	conn    *websocket.Conn
	acked   int64 // the last result that the client says it has
}

// fail ends the script.
func (p *peer) fail(format string, args ...any) {
	p.t.Helper()
	p.t.Errorf("connection %d: %s", p.number, fmt.Sprintf(format, args...))
	if p.conn != nil {
		_ = p.conn.CloseNow()
	}
	runtime.Goexit()
}

func (p *peer) accept() *websocket.Conn {
	if p.conn == nil {
		conn, err := websocket.Accept(p.answer, p.request, &websocket.AcceptOptions{Subprotocols: []string{wire.Subprotocol}})
		if err != nil {
			p.fail("accept: %v", err)
		}
		conn.SetReadLimit(wire.MaxFrame)
		p.conn = conn
	}
	return p.conn
}

// patience is how long a script waits for what should come.
const patience = 5 * time.Minute

// read takes the next message, whatever it is. Acknowledgements of results are noted and passed over.
func (p *peer) read() (websocket.MessageType, []byte, error) {
	conn := p.accept()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
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

// expect takes the next message, which is of the frame's type, and reads it into the frame.
func (p *peer) expect(into wire.Frame) {
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

// audio takes the next message, which is a binary frame, and compares it.
func (p *peer) audio(want ...string) {
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

// final takes the next message, which ends an utterance and is the audio frame of that number.
func (p *peer) final(seq int64) {
	p.t.Helper()
	var c wire.AudioChunk
	p.expect(&c)
	if !c.IsFinal || len(c.Data) > 0 || c.Seq != seq {
		p.fail("got %+v, want an empty final chunk with seq %d", c, seq)
	}
}

func (p *peer) send(frames ...wire.Frame) {
	p.t.Helper()
	if err := p.trySend(frames...); err != nil {
		p.fail("writing: %v", err)
	}
}

// trySend is for connections that may be gone.
func (p *peer) trySend(frames ...wire.Frame) error {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
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

func (p *peer) write(typ websocket.MessageType, body []byte) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := p.accept().Write(ctx, typ, body); err != nil {
		p.fail("writing: %v", err)
	}
}

// speak sends a piece of a spoken result.
func (p *peer) speak(job string, chunk int, last bool, audio string) {
	p.t.Helper()
	body, err := wire.AppendBinary(nil, &wire.BinaryHeader{
		Kind: wire.KindTTS, ActiveJob: wire.ActiveJob{JobID: job, AttemptID: 1}, Chunk: chunk, Last: last,
	}, []byte(audio))
	if err != nil {
		p.fail("%v", err)
	}
	p.write(websocket.MessageBinary, body)
}

// cut drops the connection without a word.
func (p *peer) cut() { _ = p.accept().CloseNow() }

// shut closes with an error frame and a code.
func (p *peer) shut(code wire.CloseCode, e wire.Error) {
	p.send(wire.ErrorFrame{Error: e, Fatal: true})
	_ = p.conn.Close(websocket.StatusCode(code), "")
}

// limits are those of a session that nothing holds up.
var limits = wire.SessionLimits{FrameBytes: wire.MaxFrame, ResumeMS: 60_000, UtteranceMS: 60_000, ResultTimeoutMS: 30_000}

// begin answers session_start.
func (p *peer) begin(l wire.SessionLimits) wire.SessionStart {
	p.t.Helper()
	var start wire.SessionStart
	p.expect(&start)
	audio := start.Audio
	audio.Framing = wire.FramingRaw // as a scheduler that does not know the other one
	p.send(wire.SessionStarted{SessionID: "s-1", ResumeToken: "r-1", Langs: start.Langs, Audio: audio, Limits: l})
	return start
}

// resume answers session_resume, which names the last durable message.
func (p *peer) resume(lastSeq, nextAudio int64) {
	p.t.Helper()
	p.resumeWith(lastSeq, wire.SessionResumed{SessionID: "s-1", Recovered: true, NextAudioSeq: nextAudio, LastSeq: lastSeq})
}

func (p *peer) resumeWith(lastSeq int64, answer wire.SessionResumed) {
	p.t.Helper()
	var r wire.SessionResume
	p.expect(&r)
	if want := (wire.SessionResume{SessionID: "s-1", ResumeToken: "r-1", LastSeq: lastSeq}); r != want {
		p.fail("got %+v, want %+v", r, want)
	}
	p.send(answer)
}

// end answers session_end and closes.
func (p *peer) end(totals wire.SessionEnded) {
	p.t.Helper()
	p.expect(&wire.SessionEnd{})
	p.send(totals)
	_ = p.conn.Close(websocket.StatusNormalClosure, "")
}

// pipes is a listener without a network.
type pipes struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
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
func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *pipes) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 5010} }
