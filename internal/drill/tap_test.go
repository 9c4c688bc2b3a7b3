package drill

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
)

// tap listens in on WebSockets: it shows every text message of either direction to hear. The Go packages hide what they
// forgive, such as a result that comes twice or a job too many; here it is seen.
type tap struct {
	base  http.RoundTripper
	conns atomic.Int64
	made  func(conn int, from string) // is called with the address that a connection comes from; optional
	hear  func(conn int, sent bool, text []byte)
}

// RoundTrip implements http.RoundTripper.
func (t *tap) RoundTrip(r *http.Request) (*http.Response, error) {
	var from net.Addr
	r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GotConn: func(c httptrace.GotConnInfo) { from = c.Conn.LocalAddr() },
	}))
	resp, err := t.base.RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		return resp, err
	}
	socket, ok := resp.Body.(io.ReadWriteCloser)
	if !ok {
		return resp, fmt.Errorf("a socket that cannot be written to: %T", resp.Body)
	}
	n := int(t.conns.Add(1))
	if t.made != nil && from != nil {
		t.made(n, from.String())
	}
	resp.Body = &tapped{
		ReadWriteCloser: socket,
		in:              frames{hear: func(text []byte) { t.hear(n, false, text) }},
		out:             frames{hear: func(text []byte) { t.hear(n, true, text) }},
	}
	return resp, nil
}

type tapped struct {
	io.ReadWriteCloser
	in, out frames
}

// Read implements io.Reader.
func (t *tapped) Read(p []byte) (int, error) {
	n, err := t.ReadWriteCloser.Read(p)
	t.in.feed(p[:n])
	return n, err
}

// Write implements io.Writer. It listens first: the answer may be here before the write returns.
func (t *tapped) Write(p []byte) (int, error) {
	t.out.feed(p)
	return t.ReadWriteCloser.Write(p)
}

// frames finds the text messages in one direction of a WebSocket.
type frames struct {
	hear func(text []byte)

	head    []byte // of the frame at hand, until it is whole
	left    int64  // bytes of the frame at hand that have not come
	mask    [4]byte
	at      int // in the mask
	final   bool
	control bool
	text    bool // the message at hand is one
	message []byte
}

const (
	opContinue = 0
	opText     = 1
	opControl  = 8 // and above
)

func (f *frames) feed(p []byte) {
	for len(p) > 0 {
		if f.left == 0 {
			f.head = append(f.head, p[0])
			p = p[1:]
			if f.begin() && f.left == 0 {
				f.end()
			}
			continue
		}
		n := min(int64(len(p)), f.left)
		if f.text && !f.control {
			for _, b := range p[:n] {
				f.message = append(f.message, b^f.mask[f.at%4])
				f.at++
			}
		}
		f.left -= n
		p = p[n:]
		if f.left == 0 {
			f.end()
		}
	}
}

// begin reads the head of a frame, if it is whole, and reports whether it is.
func (f *frames) begin() bool {
	h := f.head
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
	f.final, f.control, f.at = h[0]&0x80 != 0, op >= opControl, 0
	if !f.control && op != opContinue {
		f.text = op == opText
	}
	f.head, f.left = f.head[:0], size
	return true
}

// end closes a frame, and perhaps a message.
func (f *frames) end() {
	if f.control || !f.final {
		return
	}
	if f.text {
		f.hear(f.message)
	}
	f.message = f.message[:0]
}
