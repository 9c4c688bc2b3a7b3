package socket

import (
	"bufio"
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/wire"
)

// Accept makes a WebSocket of a request. Whoever may not connect is answered with a status, a wire.Error says why, and
// Accept returns it. The handler should return right after Accept: nothing of the request is kept, and whoever reads
// needs a goroutine of its own. Read must be called until it returns an error.
func (h *Hub) Accept(w http.ResponseWriter, r *http.Request) (*Conn, error) {
	return h.accept(w, r, true)
}

// Refuse makes a WebSocket of a request only to tell the other side why it may not be one: a page cannot see how a
// handshake was refused. It does not count for its address, and the other side has a moment to close too.
func (h *Hub) Refuse(w http.ResponseWriter, r *http.Request, code wire.CloseCode, e *wire.Error) {
	c, err := h.accept(w, r, false)
	if err != nil {
		return // it was answered
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused = true
	c.part(CloseError{Code: code}, e)
}

func (h *Hub) accept(w http.ResponseWriter, r *http.Request, counted bool) (*Conn, error) {
	switch {
	case r.ProtoMajor != 1 || !has(r.Header, "Connection", "upgrade") || !has(r.Header, "Upgrade", "websocket"):
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
		return nil, refuse(w, http.StatusUpgradeRequired,
			wire.Errorf(wire.InvalidRequest, "a WebSocket is served here: connect with a WebSocket client, over HTTP/1.1"))
	case !sameOrigin(r, h.opts.Origins):
		return nil, refuse(w, http.StatusForbidden,
			wire.Errorf(wire.Forbidden, "pages of this origin may not connect here: the scheduler's config can allow it"))
	case !slices.Contains(tokens(r.Header, "Sec-Websocket-Protocol"), wire.Subprotocol):
		return nil, refuse(w, http.StatusBadRequest,
			wire.Errorf(wire.InvalidRequest, "offer the subprotocol %s, by Sec-WebSocket-Protocol", wire.Subprotocol))
	}
	peer, _ := netip.ParseAddrPort(r.RemoteAddr) // what is not an address counts as one
	from := peer.Addr().Unmap()
	if status, e := h.admit(from, counted); e != nil {
		return nil, refuse(w, status, e)
	}
	c := &Conn{hall: h, address: r.RemoteAddr, from: from, counted: counted, done: make(chan struct{}), users: 1}
	up := &upgrade{ResponseWriter: w, conn: c}
	ws, err := websocket.Accept(up, withoutToken(r), &websocket.AcceptOptions{
		Subprotocols: []string{wire.Subprotocol}, InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled,
		OnPongReceived: c.pong,
	})
	if err != nil {
		h.leave(c)
		return nil, refuse(w, up.status, malformed(up.status))
	}
	ws.SetReadLimit(-1) // Read has its own, which says more
	c.ws = ws
	if h.enter(c) {
		c.Close(wire.CloseDraining, stopping())
	}
	return c, nil
}

// has reports whether a header that is a list names something.
func has(h http.Header, key, name string) bool {
	return slices.ContainsFunc(tokens(h, key), func(t string) bool { return strings.EqualFold(t, name) })
}

// withoutToken is the request as the library sees it: it keeps the subprotocol for as long as the connection lives, and
// with it would keep the token beside it in the same line.
func withoutToken(r *http.Request) *http.Request {
	bare := r.WithContext(r.Context())
	bare.Header = maps.Clone(r.Header)
	bare.Header["Sec-Websocket-Protocol"] = []string{wire.Subprotocol}
	return bare
}

// malformed says in our words what the library refused a handshake for.
func malformed(status int) *wire.Error {
	if status == http.StatusMethodNotAllowed {
		return wire.Errorf(wire.MethodNotAllowed, "a WebSocket is opened with GET")
	}
	return wire.Errorf(wire.InvalidRequest, "this is no WebSocket handshake of version 13: see RFC 6455, section 4, or use a library")
}

// refuse answers a handshake with an error, and returns it.
func refuse(w http.ResponseWriter, status int, e *wire.Error) error {
	body, err := json.Marshal(e)
	if err != nil {
		return err
	}
	header := w.Header()
	if e.RetryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(e.RetryAfter))
	}
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a peer that left does not hear the answer
	return e
}

// upgrade is the answer to a handshake as the library sees it. A refusal is only noted, to be said in our own form, and
// the connection that the library gets is our pipe.
type upgrade struct {
	http.ResponseWriter
	conn   *Conn
	status int
}

// WriteHeader implements http.ResponseWriter.
func (u *upgrade) WriteHeader(status int) {
	if u.status = status; status == http.StatusSwitchingProtocols {
		u.ResponseWriter.WriteHeader(status)
	}
}

// Write drops the text of a refusal.
func (u *upgrade) Write(p []byte) (int, error) { return len(p), nil }

const (
	// readAhead is enough for 100 ms of 16 kHz audio to be read in one call. It is what an idle connection costs most.
	readAhead = 4 << 10
	// controlFrame is the most that the library writes at once: it must come to the pipe in one piece.
	controlFrame = 128
	// sendBuffer is what the kernel may hold of what was written. By itself it would take megabytes for a reader that is
	// slow, and we would learn late that it is.
	sendBuffer = 128 << 10
)

// Hijack implements http.Hijacker. The buffers of net/http, 4 KiB each way, are left to it but for what is in them.
func (u *upgrade) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	nc, rw, err := http.NewResponseController(u.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	early, _ := rw.Peek(rw.Reader.Buffered())
	p := &pipe{Conn: nc, c: u.conn, early: slices.Clone(early)}
	if tcp, ok := nc.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(sendBuffer) // if it cannot be set, slow readers are found out later
	}
	u.conn.pipe = p
	return p, bufio.NewReadWriter(bufio.NewReaderSize(p, readAhead), bufio.NewWriterSize(p, controlFrame)), nil
}
