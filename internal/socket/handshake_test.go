package socket_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestHandshakeAnswers: each handshake is upgraded, or refused with a JSON error.
func TestHandshakeAnswers(t *testing.T) {
	t.Parallel()
	const upgraded = http.StatusSwitchingProtocols
	subprotocol := "Sec-WebSocket-Protocol: lingua.v1"
	s := startServer(t, socket.Options{Origins: []string{"app.example.com", "https://safe.example.com", "*.example.org", "*bad.example"}}, nil)
	own := "http://" + s.address
	for name, row := range map[string]struct {
		headers []string
		status  int
		code    wire.Code
	}{
		"as it should be":                {upgradeHeaders(subprotocol), upgraded, ""},
		"with another subprotocol, too":  {upgradeHeaders("Sec-WebSocket-Protocol: chat, lingua.v1"), upgraded, ""},
		"with its token":                 {upgradeHeaders("Sec-WebSocket-Protocol: lingua.v1, lingua.token.abc"), upgraded, ""},
		"with its token first":           {upgradeHeaders("Sec-WebSocket-Protocol: lingua.token.abc,lingua.v1"), upgraded, ""},
		"in two lines":                   {upgradeHeaders("Sec-WebSocket-Protocol: lingua.token.abc", subprotocol), upgraded, ""},
		"with compression, which is off": {upgradeHeaders(subprotocol, "Sec-WebSocket-Extensions: permessage-deflate"), upgraded, ""},
		"without a subprotocol":          {upgradeHeaders(), upgraded, ""},
		"with another subprotocol":       {upgradeHeaders("Sec-WebSocket-Protocol: lingua.v2"), 400, wire.InvalidRequest},
		"with the token only":            {upgradeHeaders("Sec-WebSocket-Protocol: lingua.token.abc"), 400, wire.InvalidRequest},
		"with a similar subprotocol":     {upgradeHeaders("Sec-WebSocket-Protocol: lingua.v1x"), 400, wire.InvalidRequest},

		"from its own page":                  {upgradeHeaders(subprotocol, "Origin: "+own), upgraded, ""},
		"from a page of the list":            {upgradeHeaders(subprotocol, "Origin: http://APP.example.com"), upgraded, ""},
		"from below one of the list":         {upgradeHeaders(subprotocol, "Origin: https://a.b.example.org"), upgraded, ""},
		"from a page of the scheme":          {upgradeHeaders(subprotocol, "Origin: https://safe.example.com"), upgraded, ""},
		"from a page of another scheme":      {upgradeHeaders(subprotocol, "Origin: http://safe.example.com"), 403, wire.Forbidden},
		"from another page":                  {upgradeHeaders(subprotocol, "Origin: https://evil.example"), 403, wire.Forbidden},
		"from one that ends the same":        {upgradeHeaders(subprotocol, "Origin: https://evilexample.org"), 403, wire.Forbidden},
		"from one of a list that is wrong":   {upgradeHeaders(subprotocol, "Origin: https://verybad.example"), 403, wire.Forbidden},
		"from the name above":                {upgradeHeaders(subprotocol, "Origin: https://example.org"), 403, wire.Forbidden},
		"from one that begins the same":      {upgradeHeaders(subprotocol, "Origin: http://app.example.com.evil.example"), 403, wire.Forbidden},
		"from another port":                  {upgradeHeaders(subprotocol, "Origin: http://127.0.0.1:1"), 403, wire.Forbidden},
		"from nowhere":                       {upgradeHeaders(subprotocol, "Origin: null"), 403, wire.Forbidden},
		"from something that is no page":     {upgradeHeaders(subprotocol, "Origin: ::"), 403, wire.Forbidden},
		"from a page, without a subprotocol": {upgradeHeaders("Origin: https://evil.example"), 403, wire.Forbidden},

		"plain HTTP":       {[]string{subprotocol}, 426, wire.InvalidRequest},
		"without Upgrade":  {[]string{"Connection: Upgrade", subprotocol}, 426, wire.InvalidRequest},
		"another upgrade":  {[]string{"Connection: Upgrade", "Upgrade: h2c", subprotocol}, 426, wire.InvalidRequest},
		"without a key":    {[]string{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", subprotocol}, 400, wire.InvalidRequest},
		"a key too short":  {[]string{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: YQ==", subprotocol}, 400, wire.InvalidRequest},
		"an older version": {[]string{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 8", "Sec-WebSocket-Key: " + sampleKey, subprotocol}, 400, wire.InvalidRequest},
		"Upgrade in capitals": {
			[]string{"Connection: UPGRADE", "Upgrade: WebSocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: " + sampleKey, subprotocol}, upgraded, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, resp := handshake(t, s.address, row.headers...)
			if resp.StatusCode != row.status {
				t.Fatalf("answered %s; want %d", resp.Status, row.status)
			}
			if row.status == upgraded {
				var want []string
				if len(row.headers) > len(upgradeHeaders()) {
					want = []string{wire.Subprotocol}
				}
				if got := resp.Header.Values("Sec-WebSocket-Protocol"); !cmp.Equal(got, want) {
					t.Errorf("the subprotocol is %q", got)
				}
				if got := resp.Header.Get("Sec-WebSocket-Extensions"); got != "" {
					t.Errorf("the extensions are %q", got)
				}
				c.send(frame(fin|text, "hello"))
				c.expect(fin|text, echoOf("hello"))
				return
			}
			e := refusal(t, resp)
			if e.Code != row.code || e.Detail == "" {
				t.Errorf("refused with %+v; want %s", e, row.code)
			}
		})
	}
}

// refusal decodes the error of a refused handshake.
func refusal(t *testing.T, resp *http.Response) wire.Error {
	t.Helper()
	defer resp.Body.Close()
	var e wire.Error
	if err := json.NewDecoder(resp.Body).Decode(&e); err != nil || resp.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("the body is not JSON: %v, %v", err, resp.Header)
	}
	return e
}

func TestHandshakeRequiresGET(t *testing.T) {
	t.Parallel()
	s := startServer(t, socket.Options{}, nil)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range upgradeHeaders("Sec-WebSocket-Protocol: lingua.v1") {
		k, v, _ := strings.Cut(line, ": ")
		req.Header.Set(k, v)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	if e := refusal(t, resp); resp.StatusCode != http.StatusMethodNotAllowed || e.Code != wire.MethodNotAllowed {
		t.Errorf("answered %s, %+v", resp.Status, e)
	}
}

func TestOriginWildcardAllowsAll(t *testing.T) {
	t.Parallel()
	s := startServer(t, socket.Options{Origins: []string{"*"}}, nil)
	_, resp := handshake(t, s.address, upgradeHeaders("Sec-WebSocket-Protocol: lingua.v1", "Origin: https://anywhere.example")...)
	if resp.StatusCode != http.StatusSwitchingProtocols {
		t.Errorf("answered %s", resp.Status)
	}
}

// TestNullOriginDoesNotMatchEmptyHost: the origin "null" has no host, and is not the same as a request without one.
func TestNullOriginDoesNotMatchEmptyHost(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	r.Host = ""
	r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Origin": {"null"}}
	w := httptest.NewRecorder()
	if _, err := socket.NewHub(socket.Options{}).Accept(w, r); err == nil || w.Code != http.StatusForbidden {
		t.Errorf("answered %d, %v", w.Code, err)
	}
}

func TestTokenOfHandshake(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		header http.Header
		want   string
	}{
		"none":                          {http.Header{}, ""},
		"in the header":                 {http.Header{"Authorization": {"Bearer abc.def"}}, "abc.def"},
		"in lower case":                 {http.Header{"Authorization": {"bearer  abc"}}, "abc"},
		"of another kind":               {http.Header{"Authorization": {"Basic YTpi"}}, ""},
		"an empty one":                  {http.Header{"Authorization": {"Bearer "}}, ""},
		"as a subprotocol":              {http.Header{"Sec-Websocket-Protocol": {"lingua.v1, lingua.token.a.b-c_d"}}, "a.b-c_d"},
		"in a second line":              {http.Header{"Sec-Websocket-Protocol": {"lingua.v1", "lingua.token.abc"}}, "abc"},
		"an empty subprotocol":          {http.Header{"Sec-Websocket-Protocol": {"lingua.v1, lingua.token."}}, ""},
		"the header before the other":   {http.Header{"Authorization": {"Bearer x"}, "Sec-Websocket-Protocol": {"lingua.token.y"}}, "x"},
		"another kind does not hide it": {http.Header{"Authorization": {"Basic x"}, "Sec-Websocket-Protocol": {"lingua.token.y"}}, "y"},
	} {
		row.header.Set("Upgrade", "websocket")
		if got := socket.Token(&http.Request{Header: row.header}); got != row.want {
			t.Errorf("%s: got %q; want %q", name, got, row.want)
		}
	}
}

// TestSubprotocolIsNoTokenOfAnotherRequest: only a handshake has its token there.
func TestSubprotocolIsNoTokenOfAnotherRequest(t *testing.T) {
	t.Parallel()
	if got := socket.Token(&http.Request{Header: http.Header{"Sec-Websocket-Protocol": {"lingua.token.abc"}}}); got != "" {
		t.Errorf("%q", got)
	}
}

// TestTokenIsNotLeaked: the token is neither in an answer nor in the log.
func TestTokenIsNotLeaked(t *testing.T) {
	t.Parallel()
	const secret = "eyJ.TOP.SECRET"
	var mu sync.Mutex
	var logged bytes.Buffer
	log := slog.New(slog.NewTextHandler(lockedWriter{&mu, &logged}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s := startServer(t, socket.Options{Log: log, PerAddress: 1}, nil)
	var answers strings.Builder
	for range 2 { // the second is refused
		c, resp := handshake(t, s.address, upgradeHeaders("Sec-WebSocket-Protocol: lingua.v1, lingua.token."+secret, "Authorization: Bearer "+secret)...)
		fmt.Fprint(&answers, resp.Header)
		if resp.StatusCode != http.StatusSwitchingProtocols {
			fmt.Fprint(&answers, refusal(t, resp))
			continue
		}
		c.send(frame(fin|0x3, ""))
		for {
			g, err := readFrame(c.r)
			if err != nil {
				break
			}
			answers.WriteString(g.Payload)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if all := answers.String() + logged.String(); strings.Contains(all, "SECRET") {
		t.Errorf("the token is in %s", all)
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

// Write implements io.Writer.
func (l lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// TestConnectionLimitPerAddress: the limit holds for each address, and failed handshakes do not count.
func TestConnectionLimitPerAddress(t *testing.T) {
	t.Parallel()
	s := startServer(t, socket.Options{PerAddress: 2}, nil)
	subprotocol := upgradeHeaders("Sec-WebSocket-Protocol: lingua.v1")
	for range 3 {
		_, resp := handshake(t, s.address, "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Protocol: lingua.v1")
		if resp.StatusCode != http.StatusBadRequest {
			t.Fatalf("a handshake without a key was answered %s", resp.Status)
		}
	}
	first := dial(t, s.address)
	conn := receive(t, s.accepted)
	dial(t, s.address)
	receive(t, s.accepted) // the answer to a handshake is written before the hub counts the connection
	for range 2 {
		_, resp := handshake(t, s.address, subprotocol...)
		if e := refusal(t, resp); resp.StatusCode != http.StatusTooManyRequests || e.Code != wire.RateLimited || resp.Header.Get("Retry-After") == "" {
			t.Fatalf("the third was answered %s, %+v, %v", resp.Status, e, resp.Header)
		}
	}
	if host, _, _ := net.SplitHostPort(conn.RemoteAddr()); host != "127.0.0.1" || conn.RemoteAddr() != first.LocalAddr().String() {
		t.Errorf("the remote address is %s; want %s", conn.RemoteAddr(), first.LocalAddr())
	}
	if n := s.Len(); n != 2 {
		t.Errorf("%d connections; want 2", n)
	}
	from, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext(t.Context(), "tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	fmt.Fprintf(from, "GET / HTTP/1.1\r\nHost: %s\r\n%s\r\n\r\n", s.address, strings.Join(subprotocol, "\r\n"))
	answer := make([]byte, len("HTTP/1.1 101"))
	if _, err := from.Read(answer); err != nil || string(answer) != "HTTP/1.1 101" {
		t.Errorf("another address was answered %q, %v", answer, err)
	}
	first.send(encodeClose(1000, ""))
	first.expectClose(1000)
	first.Close()
	s.awaitDone(conn)
	dial(t, s.address)
}

// TestRefusedConnectionIsClosedWithReason: a refused connection does not count towards the limit of its address, is closed with an
// error, and ends soon even if the peer never closes.
func TestRefusedConnectionIsClosedWithReason(t *testing.T) {
	t.Parallel()
	ended := make(chan socket.CloseError, 5)
	hub := socket.NewHub(socket.Options{PerAddress: 1, Stall: time.Hour, Ended: func(c socket.CloseError) { ended <- c }})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hub.Refuse(w, r, wire.CloseUnauthorized, wire.Errorf(wire.Unauthorized, "no"))
	}))
	t.Cleanup(srv.Close)
	address := strings.TrimPrefix(srv.URL, "http://")
	for range 5 {
		p := dial(t, address) // fails if the refused ones before it count
		p.expectError(wire.Unauthorized)
		p.expectClose(wire.CloseUnauthorized)
	}
	for range 5 { // although the peer does not close
		if c := receive(t, ended); c.Code != wire.CloseUnauthorized || c.ByPeer {
			t.Errorf("the connection ended with %+v", c)
		}
	}
	if n := hub.Len(); n != 0 {
		t.Errorf("%d connections are left", n)
	}
}
