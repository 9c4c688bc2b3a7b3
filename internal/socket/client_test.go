package socket_test

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// Opcodes and bits of a frame (RFC 6455, section 5.2).
const (
	continuation, text, binaryFrame = 0x0, 0x1, 0x2
	closeFrame, ping, pong          = 0x8, 0x9, 0xA
	fin, rsv1, rsv2, rsv3           = 0x80, 0x40, 0x20, 0x10
	maskBit, testTimeout            = 0x80, 20 * time.Second
	sampleKey, sampleAccept         = "dGhlIHNhbXBsZSBub25jZQ==", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
)

var mask = [4]byte{0x37, 0xfa, 0x21, 0x3d}

// frame encodes a masked frame, as a client does. The whole first byte is an argument, so that it can be wrong.
func frame(first byte, payload string) []byte {
	b := []byte{first}
	switch n := len(payload); {
	case n < 126:
		b = append(b, maskBit|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, maskBit|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, maskBit|127), uint64(n))
	}
	b = append(b, mask[:]...)
	for i := range len(payload) {
		b = append(b, payload[i]^mask[i%4])
	}
	return b
}

// unmaskedFrame encodes a frame without a mask.
func unmaskedFrame(first byte, payload string) []byte {
	return append([]byte{first, byte(len(payload))}, payload...)
}

// encodeClose encodes a close frame.
func encodeClose(code int, reason string) []byte {
	return frame(fin|closeFrame, string(binary.BigEndian.AppendUint16(nil, uint16(code)))+reason)
}

// rawFrame is a frame that the server sent.
type rawFrame struct {
	First   byte
	Payload string
}

var errInvalidFrame = errors.New("a server must not send this frame")

// readFrame reads a frame as a client does, and refuses what a server must not send.
func readFrame(r io.Reader) (rawFrame, error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return rawFrame{}, err
	}
	n := uint64(head[1])
	switch n {
	case 126:
		var b [2]byte
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return rawFrame{}, err
		}
		if n = uint64(binary.BigEndian.Uint16(b[:])); n < 126 {
			return rawFrame{}, fmt.Errorf("%w: the length is not minimally encoded", errInvalidFrame)
		}
	case 127:
		var b [8]byte
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return rawFrame{}, err
		}
		if n = binary.BigEndian.Uint64(b[:]); n < 1<<16 {
			return rawFrame{}, fmt.Errorf("%w: the length is not minimally encoded", errInvalidFrame)
		}
	}
	if head[1]&maskBit != 0 || head[0]&(rsv1|rsv2|rsv3) != 0 || n > 8<<20 {
		return rawFrame{}, fmt.Errorf("%w: %x", errInvalidFrame, head)
	}
	payload := make([]byte, n)
	if _, err := io.ReadFull(r, payload); err != nil {
		return rawFrame{}, err
	}
	return rawFrame{head[0], string(payload)}, nil
}

// rawClient is a client that writes bytes as they are.
type rawClient struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

// handshake sends a handshake with these headers and returns the response.
func handshake(t *testing.T, address string, headers ...string) (*rawClient, *http.Response) {
	t.Helper()
	return handshakeWith(t, address, "", headers...)
}

// handshakeWith sends further bytes together with the handshake.
func handshakeWith(t *testing.T, address, early string, headers ...string) (*rawClient, *http.Response) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(testTimeout))
	p := &rawClient{t: t, Conn: conn, r: bufio.NewReader(conn)}
	p.send([]byte("GET / HTTP/1.1\r\nHost: " + address + "\r\n" + strings.Join(headers, "\r\n") + "\r\n\r\n" + early))
	resp, err := http.ReadResponse(p.r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p, resp
}

// upgradeHeaders are the headers of a valid handshake.
func upgradeHeaders(more ...string) []string {
	return append([]string{
		"Connection: keep-alive, Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: " + sampleKey,
	}, more...)
}

// dial opens a WebSocket.
func dial(t *testing.T, address string) *rawClient {
	t.Helper()
	p, resp := handshake(t, address, upgradeHeaders("Sec-WebSocket-Protocol: "+wire.Subprotocol)...)
	if resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("Sec-WebSocket-Accept") != sampleAccept {
		t.Fatalf("the handshake was answered %s, %v", resp.Status, resp.Header)
	}
	return p
}

func (p *rawClient) send(parts ...[]byte) {
	p.t.Helper()
	if _, err := p.Write(slices.Concat(parts...)); err != nil {
		p.t.Fatal(err)
	}
}

// next is the next frame.
func (p *rawClient) next() rawFrame {
	p.t.Helper()
	g, err := readFrame(p.r)
	if err != nil {
		p.t.Fatalf("want a frame, got %v", err)
	}
	return g
}

// expect compares the next frame.
func (p *rawClient) expect(first byte, payload string) {
	p.t.Helper()
	if g := p.next(); g.First != first || g.Payload != payload {
		p.t.Fatalf("got a frame %x %.60q of %d bytes; want %x %.60q of %d", g.First, g.Payload, len(g.Payload), first, payload, len(payload))
	}
}

// expectError compares the next frame with a fatal error.
func (p *rawClient) expectError(code wire.Code) {
	p.t.Helper()
	g := p.next()
	var e struct {
		Type string
		wire.ErrorFrame
	}
	if err := json.Unmarshal([]byte(g.Payload), &e); err != nil || g.First != fin|text {
		p.t.Fatalf("want an error frame, got %x %.80q", g.First, g.Payload)
	}
	if e.Type != "error" || e.Code != code || !e.Fatal || e.Detail == "" {
		p.t.Fatalf("got %s; want a fatal error %s", g.Payload, code)
	}
}

// expectClose compares the next frame with a close, after which the connection must end. Code 0 is a close without a code.
func (p *rawClient) expectClose(code wire.CloseCode) {
	p.t.Helper()
	g := p.next()
	if g.First != fin|closeFrame {
		p.t.Fatalf("want a close with %d, got %x %.80q", code, g.First, g.Payload)
	}
	var with wire.CloseCode
	if len(g.Payload) >= 2 {
		with = wire.CloseCode(binary.BigEndian.Uint16([]byte(g.Payload)))
	}
	if with != code {
		p.t.Fatalf("closed with %d, %q; want %d", with, g.Payload, code)
	}
	p.expectEnd()
}

// expectEnd wants the connection to be closed by FIN, not reset.
func (p *rawClient) expectEnd() {
	p.t.Helper()
	if g, err := readFrame(p.r); !errors.Is(err, io.EOF) {
		p.t.Fatalf("after the close came %x %.80q, %v", g.First, g.Payload, err)
	}
}
