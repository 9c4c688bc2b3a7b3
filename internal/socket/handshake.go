package socket

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/wire"
)

// Accept upgrades a request to a WebSocket. A request that may not connect is answered with a status and a wire.Error, which
// Accept returns. The handler should return right after Accept: nothing of the request is kept, and the reader needs a goroutine of
// its own. Read must be called until it returns an error.
func (h *Hub) Accept(w http.ResponseWriter, r *http.Request) (*Conn, error) {
	return h.accept(w, r, &Conn{counted: true})
}

// OnPong makes fn be called with the payload of every pong. It is called within Read, so everything that the peer sent before the pong has
// been read. OnPong must be called before Read, or by the goroutine that reads.
func (c *Conn) OnPong(fn func(payload []byte)) { c.onPong = fn }

// Refuse upgrades a request only to close the connection with an error: a page in a browser cannot see the answer to a refused
// handshake. The connection does not count towards the limit of its address, and the peer has a short time to close too. Of such
// connections there is a limit of their own, beyond which the handshake itself is refused.
func (h *Hub) Refuse(w http.ResponseWriter, r *http.Request, code wire.CloseCode, e *wire.Error) {
	c, err := h.accept(w, r, &Conn{})
	if err != nil {
		return // accept has answered
	}
	c.refuse(code, e)
}

// accept performs the opening handshake for c.
func (h *Hub) accept(w http.ResponseWriter, r *http.Request, c *Conn) (*Conn, error) {
	if status, e := h.checkHandshake(w, r); e != nil {
		return nil, writeRefusal(w, status, e)
	}
	c.hub, c.remoteAddr, c.addr, c.done, c.users = h, r.RemoteAddr, PeerAddr(r.RemoteAddr), make(chan struct{}), 1
	c.mu = run.NewMutex("socket_conn")
	if status, e := h.admit(c.addr, c.counted); e != nil {
		return nil, writeRefusal(w, status, e)
	}
	up := &upgrader{ResponseWriter: w, conn: c}
	ws, err := websocket.Accept(up, withoutToken(r), &websocket.AcceptOptions{
		Subprotocols: []string{wire.Subprotocol}, InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled,
		OnPongReceived: c.pongReceived,
	})
	if err != nil {
		h.remove(c)
		return nil, writeRefusal(w, up.status, errHandshake(up.status))
	}
	ws.SetReadLimit(-1) // Read has its own limit, with an error frame
	c.ws = ws
	if h.add(c) {
		c.Close(wire.CloseDraining, errStopping())
	}
	return c, nil
}

// checkHandshake returns the status and the error with which a handshake must be refused.
func (h *Hub) checkHandshake(w http.ResponseWriter, r *http.Request) (int, *wire.Error) {
	switch {
	case r.ProtoMajor != 1 || !listsToken(r.Header, "Connection", "upgrade") || !listsToken(r.Header, "Upgrade", "websocket"):
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
		return http.StatusUpgradeRequired,
			wire.Errorf(wire.InvalidRequest, "a WebSocket is served here: connect with a WebSocket client, over HTTP/1.1")
	case !originAllowed(r, h.opts.Origins):
		return http.StatusForbidden,
			wire.Errorf(wire.Forbidden, "pages of this origin may not connect here: the scheduler's config can allow it")
	case len(r.Header["Sec-Websocket-Protocol"]) > 0 && !slices.Contains(listTokens(r.Header, "Sec-Websocket-Protocol"), wire.Subprotocol):
		return http.StatusBadRequest,
			wire.Errorf(wire.InvalidRequest, "offer the subprotocol %s in Sec-WebSocket-Protocol, or none", wire.Subprotocol)
	}
	return 0, nil
}

func (c *Conn) pongReceived(_ context.Context, payload []byte) {
	if c.onPong != nil {
		c.onPong(payload)
	}
}

// withoutToken is the request as the library sees it. The library keeps the header that names the subprotocol for as long as the
// connection lives, and a token may stand beside it in the same line.
func withoutToken(r *http.Request) *http.Request {
	bare := r.WithContext(r.Context())
	bare.Header = maps.Clone(r.Header)
	if len(bare.Header["Sec-Websocket-Protocol"]) > 0 {
		bare.Header["Sec-Websocket-Protocol"] = []string{wire.Subprotocol}
	}
	return bare
}

// errHandshake is the error for a handshake that the library refused with this status.
func errHandshake(status int) *wire.Error {
	if status == http.StatusMethodNotAllowed {
		return wire.Errorf(wire.MethodNotAllowed, "a WebSocket is opened with GET")
	}
	return wire.Errorf(wire.InvalidRequest, "this is no WebSocket handshake of version 13: see RFC 6455, section 4, or use a library")
}

// writeRefusal answers a handshake with an error, and returns the error.
func writeRefusal(w http.ResponseWriter, status int, e *wire.Error) error {
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
	_, _ = w.Write(body) // the peer may be gone
	return e
}

// upgrader is the response writer of a handshake as the library sees it. It records the status of a refusal, which is answered with
// a wire.Error instead, and gives the library a transport.
type upgrader struct {
	http.ResponseWriter
	conn   *Conn
	status int
}

// WriteHeader implements http.ResponseWriter.
func (u *upgrader) WriteHeader(status int) {
	if u.status = status; status == http.StatusSwitchingProtocols {
		u.ResponseWriter.WriteHeader(status)
	}
}

// Write drops the text of a refusal.
func (u *upgrader) Write(p []byte) (int, error) { return len(p), nil }

const (
	// readBuffer lets 100 ms of 16 kHz audio be read in one call. It is the largest part of the memory of an idle connection.
	readBuffer = 4 << 10
	// controlFrameBuffer holds a whole control frame, so that the library writes each to the transport in one call.
	controlFrameBuffer = 128
	// kernelSendBuffer bounds what the kernel holds of what was written. By default it would hold megabytes for a slow reader, which
	// would be noticed late.
	kernelSendBuffer = 128 << 10
)

// Hijack implements http.Hijacker. The buffers of net/http, 4 KiB each way, are not kept; only what is in them is.
func (u *upgrader) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	nc, rw, err := http.NewResponseController(u.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	early, _ := rw.Peek(rw.Reader.Buffered())
	t := &transport{Conn: nc, conn: u.conn, early: slices.Clone(early)}
	if tcp := tcpOf(nc); tcp != nil {
		_ = tcp.SetWriteBuffer(kernelSendBuffer) // without it, slow readers are noticed later
	}
	u.conn.transport = t
	return t, bufio.NewReadWriter(bufio.NewReaderSize(t, readBuffer), bufio.NewWriterSize(t, controlFrameBuffer)), nil
}

// tcpOf returns the TCP connection that a network connection is, or uses below TLS; nil: there is none.
func tcpOf(nc net.Conn) *net.TCPConn {
	if secure, ok := nc.(*tls.Conn); ok {
		nc = secure.NetConn()
	}
	tcp, _ := nc.(*net.TCPConn)
	return tcp
}

// Token returns the bearer token of a request, "" if there is none: from the Authorization header or, because browsers cannot set that in a
// handshake, from an offered subprotocol.
func Token(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); strings.EqualFold(scheme, "Bearer") && token != "" {
		return token
	}
	if !listsToken(r.Header, "Upgrade", "websocket") {
		return ""
	}
	for _, p := range listTokens(r.Header, "Sec-Websocket-Protocol") {
		if token, ok := strings.CutPrefix(p, wire.TokenSubprotocol); ok && token != "" {
			return token
		}
	}
	return ""
}

// listTokens returns the elements of a header that is a comma-separated list.
func listTokens(h http.Header, key string) []string {
	var all []string
	for _, line := range h[key] {
		for t := range strings.SplitSeq(line, ",") {
			all = append(all, strings.TrimSpace(t))
		}
	}
	return all
}

// listsToken reports whether a header that is a list contains a name.
func listsToken(h http.Header, key, name string) bool {
	return slices.ContainsFunc(listTokens(h, key), func(t string) bool { return strings.EqualFold(t, name) })
}

// originAllowed reports whether the page that opens the connection may do so. A client that is no browser sends no Origin.
func originAllowed(r *http.Request, allowed []string) bool {
	origin := r.Header.Get("Origin")
	if origin == "" || slices.Contains(allowed, "*") {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return false
	}
	return strings.EqualFold(u.Host, r.Host) || slices.ContainsFunc(allowed, func(a string) bool { return originMatches(a, u) })
}

// originMatches reports whether an entry of Options.Origins allows an origin.
func originMatches(entry string, origin *url.URL) bool {
	if scheme, host, ok := strings.Cut(entry, "://"); ok {
		if !strings.EqualFold(scheme, origin.Scheme) {
			return false
		}
		entry = host
	}
	if domain, ok := strings.CutPrefix(entry, "*"); ok {
		return len(origin.Host) > len(domain) && strings.HasPrefix(domain, ".") &&
			strings.EqualFold(origin.Host[len(origin.Host)-len(domain):], domain)
	}
	return strings.EqualFold(entry, origin.Host)
}
