package transcripts

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/test/docpage"
	"github.com/lingua-scheduler/lingua/test/fleet"
	"github.com/lingua-scheduler/lingua/wire"
)

// recorder collects the transcript of one peer, over all its connections.
type recorder struct {
	entries []docpage.Entry
}

func (r *recorder) add(e docpage.Entry) {
	if r != nil {
		r.entries = append(r.entries, e)
	}
}

// note records what happens beside the frames.
func (r *recorder) note(text string) { r.add(docpage.Entry{Kind: docpage.Note, Note: text}) }

// peer is a connection of a node or of a session that sends and reads single frames. Its recorder may be nil.
type peer struct {
	t    *testing.T
	rec  *recorder
	ws   *websocket.Conn
	last []byte  // the last binary frame that was received
	held []frame // they were received, and are read next
}

// frame is a frame as it was received.
type frame struct {
	kind websocket.MessageType
	data []byte
}

// connect opens a connection to an instance.
func connect(t *testing.T, i *clustertest.Instance, path string, rec *recorder) *peer {
	t.Helper()
	return &peer{t: t, rec: rec, ws: fleet.Connect(t, i.URL(), path, "").Conn}
}

func (p *peer) send(f wire.Frame) {
	p.t.Helper()
	text, err := wire.EncodeFrame(f)
	if err != nil {
		p.t.Fatal(err)
	}
	p.sendText(text)
}

func (p *peer) sendText(text []byte) {
	p.t.Helper()
	p.rec.add(docpage.Entry{Kind: docpage.Text, Sent: true, JSON: text})
	p.write(websocket.MessageText, text)
}

// sendSpeech sends a binary frame with a header.
func (p *peer) sendSpeech(h wire.BinaryHeader, data []byte) []byte {
	p.t.Helper()
	frame, err := wire.AppendBinary(nil, &h, data)
	if err != nil {
		p.t.Fatal(err)
	}
	p.recordBinary(true, frame)
	p.write(websocket.MessageBinary, frame)
	return frame
}

// sendAudio sends an audio frame of a session, with its number.
func (p *peer) sendAudio(seq int64, data []byte) []byte {
	p.t.Helper()
	frame := append(binary.BigEndian.AppendUint64(nil, uint64(seq)), data...)
	p.rec.add(docpage.Entry{Kind: docpage.Audio, Sent: true, First: seq, Last: seq, Bytes: len(data)})
	p.write(websocket.MessageBinary, frame)
	return frame
}

func (p *peer) write(kind websocket.MessageType, data []byte) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), waitTimeout)
	defer cancel()
	if err := p.ws.Write(ctx, kind, data); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) recordBinary(sent bool, frame []byte) {
	p.t.Helper()
	n := binary.BigEndian.Uint32(frame)
	p.rec.add(docpage.Entry{Kind: docpage.Binary, Sent: sent, JSON: frame[4 : 4+n], Bytes: len(frame) - 4 - int(n)})
}

// read reads the next frame.
func (p *peer) read() (websocket.MessageType, []byte, error) {
	if len(p.held) > 0 {
		f := p.held[0]
		p.held = p.held[1:]
		return f.kind, f.data, nil
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), waitTimeout)
	defer cancel()
	return p.ws.Read(ctx)
}

// putFirst makes the next message of a type the one that is read next, also if others come before it.
func (p *peer) putFirst(want wire.FrameType) {
	p.t.Helper()
	var others []frame
	for {
		kind, data, err := p.read()
		if err != nil {
			p.t.Fatalf("want %s: %v", want, err)
		}
		if typ, err := wire.TypeOf(data); kind == websocket.MessageText && err == nil && typ == want {
			p.held = append([]frame{{kind, data}}, others...)
			return
		}
		others = append(others, frame{kind, data})
	}
}

// expect reads the next frame, which must be of a type.
func expect[T wire.Frame](p *peer) T {
	p.t.Helper()
	var f T
	kind, data, err := p.read()
	if err != nil {
		p.t.Fatalf("want %s: %v", f.Type(), err)
	}
	if kind != websocket.MessageText {
		p.t.Fatalf("want %s, got a binary frame of %d bytes", f.Type(), len(data))
	}
	p.rec.add(docpage.Entry{Kind: docpage.Text, JSON: data})
	if typ, err := wire.TypeOf(data); err != nil || typ != f.Type() {
		p.t.Fatalf("want %s, got %s", f.Type(), data)
	}
	if err := wire.Decode(data, &f); err != nil {
		p.t.Fatalf("%s: %v", data, err)
	}
	return f
}

// expectBinary reads the next frame, which must be binary with a header.
func (p *peer) expectBinary() (wire.BinaryHeader, []byte) {
	p.t.Helper()
	kind, data, err := p.read()
	if err != nil || kind != websocket.MessageBinary {
		p.t.Fatalf("want a binary frame, got %s %v", data, err)
	}
	h, payload, err := wire.ReadBinary(data)
	if err != nil {
		p.t.Fatal(err)
	}
	p.last = data
	p.recordBinary(false, data)
	return h, payload
}

// expectAudio reads chunks until one of them is the last, and returns how many came.
func (p *peer) expectAudio() int {
	p.t.Helper()
	for n := 1; ; n++ {
		if h, _ := p.expectBinary(); h.Last {
			return n
		}
	}
}

// expectClose reads the close of the connection.
func (p *peer) expectClose(code wire.CloseCode) {
	p.t.Helper()
	_, data, err := p.read()
	if got := wire.CloseCode(websocket.CloseStatus(err)); got != code {
		p.t.Fatalf("want a close with %d, got %d: %s %v", code, got, data, err)
	}
	p.rec.add(docpage.Entry{Kind: docpage.Close, Code: int(code)})
}

// close closes the connection normally.
func (p *peer) close() {
	p.t.Helper()
	p.rec.add(docpage.Entry{Kind: docpage.Close, Sent: true, Code: int(wire.CloseNormal)})
	_ = p.ws.Close(websocket.StatusNormalClosure, "") // what the other side answers is of no interest
}

// cut ends the connection without a close, as a broken network does.
func (p *peer) cut() {
	p.t.Helper()
	p.rec.note("the connection is lost")
	_ = p.ws.CloseNow()
}
