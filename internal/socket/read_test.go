package socket_test

import (
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/socket"
)

// TestMessagesArriveWhole: a message may come in pieces, with control frames between them.
func TestMessagesArriveWhole(t *testing.T) {
	t.Parallel()
	type answer = got
	for name, row := range map[string]struct {
		send [][]byte
		want []answer
	}{
		"text in one frame":   {[][]byte{frame(fin|text, "hello")}, []answer{{fin | text, shown("hello")}}},
		"binary in one frame": {[][]byte{frame(fin|binaryFrame, "\x00\xff")}, []answer{{fin | binaryFrame, "\x00\xff"}}},
		"an empty text":       {[][]byte{frame(fin|text, "")}, []answer{{fin | text, shown("")}}},
		"an empty binary":     {[][]byte{frame(fin|binaryFrame, "")}, []answer{{fin | binaryFrame, ""}}},
		"text in three frames": {
			[][]byte{frame(text, "hel"), frame(more, "lo, "), frame(fin|more, "you")},
			[]answer{{fin | text, shown("hello, you")}},
		},
		"empty fragments": {
			[][]byte{frame(text, ""), frame(more, ""), frame(more, "a"), frame(more, ""), frame(fin|more, "")},
			[]answer{{fin | text, shown("a")}},
		},
		"nothing in three frames": {
			[][]byte{frame(text, ""), frame(more, ""), frame(fin|more, "")},
			[]answer{{fin | text, shown("")}},
		},
		"a character in two frames": {
			[][]byte{frame(text, "\xe4\xbd"), frame(fin|more, "\xa0\xe5"+"\xa5\xbd")},
			[]answer{{fin | text, shown("你好")}},
		},
		"a character of four bytes in four frames": {
			[][]byte{frame(text, "\xf0"), frame(more, "\x9f"), frame(more, "\x98"), frame(fin|more, "\x80")},
			[]answer{{fin | text, shown("😀")}},
		},
		"a ping between fragments is answered at once": {
			[][]byte{frame(text, "a"), frame(fin|ping, "are you there?"), frame(more, "b"), frame(fin|ping, ""), frame(fin|more, "c")},
			[]answer{{fin | pong, "are you there?"}, {fin | pong, ""}, {fin | text, shown("abc")}},
		},
		"a ping of 125 bytes": {
			[][]byte{frame(fin|ping, strings.Repeat("\xfe", 125))},
			[]answer{{fin | pong, strings.Repeat("\xfe", 125)}},
		},
		"pongs nobody asked for are ignored": {
			[][]byte{frame(fin|pong, "unasked"), frame(text, "a"), frame(fin|pong, ""), frame(fin|more, "b")},
			[]answer{{fin | text, shown("ab")}},
		},
		"ten pings in order": {
			[][]byte{
				frame(fin|ping, "0"), frame(fin|ping, "1"), frame(fin|ping, "2"), frame(fin|ping, "3"), frame(fin|ping, "4"),
				frame(fin|ping, "5"), frame(fin|ping, "6"), frame(fin|ping, "7"), frame(fin|ping, "8"), frame(fin|ping, "9"),
			},
			[]answer{
				{fin | pong, "0"}, {fin | pong, "1"}, {fin | pong, "2"}, {fin | pong, "3"}, {fin | pong, "4"},
				{fin | pong, "5"}, {fin | pong, "6"}, {fin | pong, "7"}, {fin | pong, "8"}, {fin | pong, "9"},
			},
		},
	} {
		for how, deliver := range map[string]func(*peer, [][]byte){
			"at once":      func(p *peer, parts [][]byte) { p.send(parts...) },
			"frame by one": func(p *peer, parts [][]byte) { each(parts, func(b []byte) { p.send(b) }) },
			"byte by byte": func(p *peer, parts [][]byte) {
				each(parts, func(b []byte) {
					for i := range b {
						p.send(b[i : i+1])
					}
				})
			},
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				p := open(t, socket.Options{}, nil)
				c := dial(t, p.address)
				deliver(c, row.send)
				for _, want := range row.want {
					c.expect(want.First, want.Payload)
				}
				c.send(leaving(1000, "bye"))
				c.expectClose(1000)
				if end := p.closed(); end != (socket.CloseError{Code: 1000, ByPeer: true}) {
					t.Errorf("Read returned %+v", end)
				}
			})
		}
	}
}

func each(parts [][]byte, do func([]byte)) {
	for _, b := range parts {
		do(b)
	}
}

// TestFramesThatCameWithTheHandshake: a client may send before it has read the answer.
func TestFramesThatCameWithTheHandshake(t *testing.T) {
	t.Parallel()
	p := open(t, socket.Options{}, nil)
	long := strings.Repeat("x", 10_000)
	early := string(frame(fin|text, "early")) + string(frame(fin|binaryFrame, long))
	c, _ := handshakeThen(t, p.address, early, usual("Sec-WebSocket-Protocol: lingua.v1")...)
	c.expect(fin|text, shown("early"))
	c.expect(fin|binaryFrame, long)
}
