package clustertest

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
)

// frameRecorder is an http.RoundTripper that passes every text message of WebSockets, in both directions, to onText. The
// packages node and client hide some messages, such as a repeated result or a job beyond the slots; a recorder sees them.
type frameRecorder struct {
	transport http.RoundTripper
	conns     atomic.Int64
	onConnect func(conn int, from string) // optional; receives the local address of a new connection
	onText    func(conn int, sent bool, text []byte)
}

// RoundTrip implements http.RoundTripper.
func (t *frameRecorder) RoundTrip(r *http.Request) (*http.Response, error) {
	var from net.Addr
	r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GotConn: func(c httptrace.GotConnInfo) { from = c.Conn.LocalAddr() },
	}))
	resp, err := t.transport.RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		return resp, err
	}
	socket, ok := resp.Body.(io.ReadWriteCloser)
	if !ok {
		return resp, fmt.Errorf("the body of an upgraded connection is a %T, which cannot be written to", resp.Body)
	}
	n := int(t.conns.Add(1))
	if t.onConnect != nil && from != nil {
		t.onConnect(n, from.String())
	}
	resp.Body = &recordedSocket{
		ReadWriteCloser: socket,
		received:        textParser{onText: func(text []byte) { t.onText(n, false, text) }},
		sent:            textParser{onText: func(text []byte) { t.onText(n, true, text) }},
	}
	return resp, nil
}

type recordedSocket struct {
	io.ReadWriteCloser
	received, sent textParser
}

// Read implements io.Reader.
func (t *recordedSocket) Read(p []byte) (int, error) {
	n, err := t.ReadWriteCloser.Read(p)
	t.received.parse(p[:n])
	return n, err
}

// Write implements io.Writer. It records first: the answer may arrive before the write returns.
func (t *recordedSocket) Write(p []byte) (int, error) {
	t.sent.parse(p)
	return t.ReadWriteCloser.Write(p)
}

// textParser finds the text messages in one direction of a WebSocket.
type textParser struct {
	onText func(text []byte)

	header     []byte // of the present frame, until it is complete
	remaining  int64  // bytes of the present frame that are not parsed
	mask       [4]byte
	maskOffset int
	final      bool
	control    bool
	isText     bool // the present message is a text message
	message    []byte
}

const (
	opContinue = 0
	opText     = 1
	opControl  = 8 // and all above
)

func (f *textParser) parse(p []byte) {
	for len(p) > 0 {
		if f.remaining == 0 {
			f.header = append(f.header, p[0])
			p = p[1:]
			if f.parseHeader() && f.remaining == 0 {
				f.endFrame()
			}
			continue
		}
		n := min(int64(len(p)), f.remaining)
		if f.isText && !f.control {
			for _, b := range p[:n] {
				f.message = append(f.message, b^f.mask[f.maskOffset%4])
				f.maskOffset++
			}
		}
		f.remaining -= n
		p = p[n:]
		if f.remaining == 0 {
			f.endFrame()
		}
	}
}

// parseHeader parses the header of a frame and reports whether it is complete.
func (f *textParser) parseHeader() bool {
	h := f.header
	if len(h) < 2 {
		return false
	}
	size, need := int64(h[1]&0x7f), 2
	switch size {
	case 126:
		need += 2
	case 127:
		need += 8
	}
	masked := h[1]&0x80 != 0
	if masked {
		need += 4
	}
	if len(h) < need {
		return false
	}
	switch size {
	case 126:
		size = int64(binary.BigEndian.Uint16(h[2:]))
	case 127:
		size = int64(binary.BigEndian.Uint64(h[2:]))
	}
	f.mask = [4]byte{}
	if masked {
		copy(f.mask[:], h[need-4:])
	}
	op := h[0] & 0x0f
	f.final, f.control, f.maskOffset = h[0]&0x80 != 0, op >= opControl, 0
	if !f.control && op != opContinue {
		f.isText = op == opText
	}
	f.header, f.remaining = f.header[:0], size
	return true
}

// endFrame ends a frame, and the message if this was its last frame.
func (f *textParser) endFrame() {
	if f.control || !f.final {
		return
	}
	if f.isText {
		f.onText(f.message)
	}
	f.message = f.message[:0]
}
