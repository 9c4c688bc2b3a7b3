package socket_test

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestFragmentedMessages: a message may come in fragments, with control frames between them.
func TestFragmentedMessages(t *testing.T) {
	t.Parallel()
	type answer = rawFrame
	for name, row := range map[string]struct {
		send [][]byte
		want []answer
	}{
		"text in one frame":   {[][]byte{frame(fin|text, "hello")}, []answer{{fin | text, echoOf("hello")}}},
		"binary in one frame": {[][]byte{frame(fin|binaryFrame, "\x00\xff")}, []answer{{fin | binaryFrame, "\x00\xff"}}},
		"an empty text":       {[][]byte{frame(fin|text, "")}, []answer{{fin | text, echoOf("")}}},
		"an empty binary":     {[][]byte{frame(fin|binaryFrame, "")}, []answer{{fin | binaryFrame, ""}}},
		"text in three frames": {
			[][]byte{frame(text, "hel"), frame(continuation, "lo, "), frame(fin|continuation, "you")},
			[]answer{{fin | text, echoOf("hello, you")}},
		},
		"empty fragments": {
			[][]byte{frame(text, ""), frame(continuation, ""), frame(continuation, "a"), frame(continuation, ""), frame(fin|continuation, "")},
			[]answer{{fin | text, echoOf("a")}},
		},
		"nothing in three frames": {
			[][]byte{frame(text, ""), frame(continuation, ""), frame(fin|continuation, "")},
			[]answer{{fin | text, echoOf("")}},
		},
		"a character in two frames": {
			[][]byte{frame(text, "\xe4\xbd"), frame(fin|continuation, "\xa0\xe5"+"\xa5\xbd")},
			[]answer{{fin | text, echoOf("你好")}},
		},
		"a character of four bytes in four frames": {
			[][]byte{frame(text, "\xf0"), frame(continuation, "\x9f"), frame(continuation, "\x98"), frame(fin|continuation, "\x80")},
			[]answer{{fin | text, echoOf("😀")}},
		},
		"a ping between fragments is answered at once": {
			[][]byte{frame(text, "a"), frame(fin|ping, "are you there?"), frame(continuation, "b"), frame(fin|ping, ""), frame(fin|continuation, "c")},
			[]answer{{fin | pong, "are you there?"}, {fin | pong, ""}, {fin | text, echoOf("abc")}},
		},
		"a ping of 125 bytes": {
			[][]byte{frame(fin|ping, strings.Repeat("\xfe", 125))},
			[]answer{{fin | pong, strings.Repeat("\xfe", 125)}},
		},
		"unsolicited pongs are ignored": {
			[][]byte{frame(fin|pong, "unasked"), frame(text, "a"), frame(fin|pong, ""), frame(fin|continuation, "b")},
			[]answer{{fin | text, echoOf("ab")}},
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
		for how, deliver := range map[string]func(*rawClient, [][]byte){
			"at once":        func(c *rawClient, parts [][]byte) { c.send(parts...) },
			"frame by frame": func(c *rawClient, parts [][]byte) { each(parts, func(b []byte) { c.send(b) }) },
			"byte by byte": func(c *rawClient, parts [][]byte) {
				each(parts, func(b []byte) {
					for i := range b {
						c.send(b[i : i+1])
					}
				})
			},
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				s := startServer(t, socket.Options{}, nil)
				c := dial(t, s.address)
				deliver(c, row.send)
				for _, want := range row.want {
					c.expect(want.First, want.Payload)
				}
				c.send(encodeClose(1000, "bye"))
				c.expectClose(1000)
				if end := s.awaitClose(); end != (socket.CloseError{Code: 1000, ByPeer: true}) {
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

// TestFramesSentWithTheHandshake: a client may send before it has read the answer.
func TestFramesSentWithTheHandshake(t *testing.T) {
	t.Parallel()
	s := startServer(t, socket.Options{}, nil)
	long := strings.Repeat("x", 10_000)
	early := string(frame(fin|text, "early")) + string(frame(fin|binaryFrame, long))
	c, _ := handshakeWith(t, s.address, early, upgradeHeaders("Sec-WebSocket-Protocol: lingua.v1")...)
	c.expect(fin|text, echoOf("early"))
	c.expect(fin|binaryFrame, long)
}

// headerOnly is the header of a frame with a length of eight bytes, without its payload.
func headerOnly(first byte, length uint64) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{first, maskBit | 127}, length), mask[:]...)
}

// TestProtocolErrorsCloseTheConnection: a violation of RFC 6455 is answered with an error frame and a close with its code.
func TestProtocolErrorsCloseTheConnection(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		code  wire.CloseCode
		parts [][]byte
	}{
		"reserved bit 1":                     {1002, [][]byte{frame(fin|rsv1|text, "x")}},
		"reserved bit 2":                     {1002, [][]byte{frame(fin|rsv2|text, "x")}},
		"reserved bit 3":                     {1002, [][]byte{frame(fin|rsv3|binaryFrame, "x")}},
		"reserved bit on a ping":             {1002, [][]byte{frame(fin|rsv1|ping, "x")}},
		"reserved bit on a close":            {1002, [][]byte{frame(fin|rsv2|closeFrame, "\x03\xe8")}},
		"reserved bit on a continuation":     {1002, [][]byte{frame(text, "x"), frame(fin|rsv1|continuation, "y")}},
		"opcode 3":                           {1002, [][]byte{frame(fin|0x3, "x")}},
		"opcode 4":                           {1002, [][]byte{frame(fin|0x4, "")}},
		"opcode 5":                           {1002, [][]byte{frame(fin|0x5, "")}},
		"opcode 6":                           {1002, [][]byte{frame(fin|0x6, "")}},
		"opcode 7":                           {1002, [][]byte{frame(fin|0x7, "x")}},
		"opcode 11":                          {1002, [][]byte{frame(fin|0xB, "")}},
		"opcode 12":                          {1002, [][]byte{frame(fin|0xC, "")}},
		"opcode 13":                          {1002, [][]byte{frame(fin|0xD, "")}},
		"opcode 14":                          {1002, [][]byte{frame(fin|0xE, "")}},
		"opcode 15":                          {1002, [][]byte{frame(fin|0xF, "x")}},
		"opcode 3 between fragments":         {1002, [][]byte{frame(text, "x"), frame(fin|0x3, "x")}},
		"text without a mask":                {1002, [][]byte{unmaskedFrame(fin|text, "x")}},
		"ping without a mask":                {1002, [][]byte{unmaskedFrame(fin|ping, "")}},
		"close without a mask":               {1002, [][]byte{unmaskedFrame(fin|closeFrame, "\x03\xe8")}},
		"ping of 126 bytes":                  {1002, [][]byte{frame(fin|ping, strings.Repeat("x", 126))}},
		"pong of 70,000 bytes":               {1002, [][]byte{frame(fin|pong, strings.Repeat("x", 70_000))}},
		"close of 126 bytes":                 {1002, [][]byte{encodeClose(1000, strings.Repeat("x", 124))}},
		"ping in fragments":                  {1002, [][]byte{frame(ping, "x"), frame(fin|continuation, "y")}},
		"pong in fragments":                  {1002, [][]byte{frame(pong, "x")}},
		"close in fragments":                 {1002, [][]byte{frame(closeFrame, "\x03\xe8")}},
		"continuation of nothing":            {1002, [][]byte{frame(fin|continuation, "x")}},
		"continuation of nothing, with more": {1002, [][]byte{frame(continuation, "x")}},
		"continuation after a whole message": {1002, [][]byte{frame(text, "x"), frame(continuation, "y"), frame(fin|text, "z")}},
		"a text within a text":               {1002, [][]byte{frame(text, "x"), frame(fin|text, "y")}},
		"a binary within a text":             {1002, [][]byte{frame(text, "x"), frame(binaryFrame, "y")}},
		"a length with its highest bit set":  {1002, [][]byte{headerOnly(fin|binaryFrame, 1<<63)}},
		"close of one byte":                  {1002, [][]byte{frame(fin|closeFrame, "\x03")}},
		"close with 0":                       {1002, [][]byte{encodeClose(0, "")}},
		"close with 999":                     {1002, [][]byte{encodeClose(999, "")}},
		"close with 1004":                    {1002, [][]byte{encodeClose(1004, "")}},
		"close with 1005":                    {1002, [][]byte{encodeClose(1005, "")}},
		"close with 1006":                    {1002, [][]byte{encodeClose(1006, "")}},
		"close with 1015":                    {1002, [][]byte{encodeClose(1015, "")}},
		"close with 1016":                    {1002, [][]byte{encodeClose(1016, "")}},
		"close with 2999":                    {1002, [][]byte{encodeClose(2999, "")}},
		"close with 5000":                    {1002, [][]byte{encodeClose(5000, "")}},
		"close with 65535":                   {1002, [][]byte{encodeClose(65535, "")}},
		"close whose reason is not UTF-8":    {1007, [][]byte{encodeClose(1000, "\xce\xba\xe1\xbd\xb9\xcf\x83\xed\xa0\x80")}},
		"an invalid first byte":              {1007, [][]byte{frame(fin|text, "a\xffb")}},
		"a truncated character":              {1007, [][]byte{frame(fin|text, "a\xe4\xbd")}},
		"a character truncated by the next":  {1007, [][]byte{frame(text, "\xe4\xbd"), frame(fin|continuation, "x")}},
		"a surrogate":                        {1007, [][]byte{frame(fin|text, "\xed\xa0\x80")}},
		"a pair of surrogates":               {1007, [][]byte{frame(text, "\xed\xa0\xbd"), frame(fin|continuation, "\xed\xb8\x80")}},
		"an overlong character":              {1007, [][]byte{frame(fin|text, "\xc0\xaf")}},
		"beyond the last character":          {1007, [][]byte{frame(fin|text, "\xf4\x90\x80\x80")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, socket.Options{}, nil)
			c := dial(t, s.address)
			conn := receive(t, s.accepted)
			// The frame before is answered, and those after are not.
			c.send(append([][]byte{frame(fin|ping, "before")}, append(row.parts, frame(fin|text, "after"), frame(fin|ping, "after"))...)...)
			c.expect(fin|pong, "before")
			c.expectError(wire.InvalidRequest)
			c.expectClose(row.code)
			if end := s.awaitClose(); end != (socket.CloseError{Code: row.code}) {
				t.Errorf("Read returned %+v", end)
			}
			c.Close()
			s.awaitDone(conn)
		})
	}
}

// TestLargestMessageIsRead: a message of the maximum size is read, in one frame and in several.
func TestLargestMessageIsRead(t *testing.T) {
	t.Parallel()
	for _, largest := range []int{1, 125, 126, 4095, 4096, 4097, 65535, 65536, wire.MaxFrame} {
		s := startServer(t, socket.Options{MaxFrame: int64(largest)}, nil)
		c := dial(t, s.address)
		whole := strings.Repeat("0123456789abcdef", largest/16+1)[:largest]
		c.send(frame(fin|binaryFrame, whole))
		c.expect(fin|binaryFrame, whole)
		c.send(frame(binaryFrame, whole[:largest/2]), frame(fin|ping, "still there?"), frame(continuation, whole[largest/2:]), frame(fin|continuation, ""))
		c.expect(fin|pong, "still there?")
		c.expect(fin|binaryFrame, whole)
		c.send(encodeClose(1000, ""))
		c.expectClose(1000)
	}
}

// TestMessageTooLarge: a message that is one byte too large is answered with an error frame and 4413, also while it is still being sent.
func TestMessageTooLarge(t *testing.T) {
	t.Parallel()
	const largest = 10_000
	whole := strings.Repeat("x", largest)
	for name, parts := range map[string][][]byte{
		"in one frame":           {frame(fin|text, whole+"x")},
		"in two":                 {frame(text, whole), frame(fin|continuation, "x")},
		"in many":                {frame(text, whole), frame(continuation, ""), frame(fin|ping, ""), frame(continuation, "x")},
		"much larger":            {frame(fin|binaryFrame, strings.Repeat("x", 3<<20))},
		"whose rest never comes": {headerOnly(fin|binaryFrame, 1<<62), []byte(whole + "x")},
		"with many after it":     {frame(fin|text, whole+"x"), frame(fin|text, whole), frame(fin|text, whole), frame(fin|text, whole)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, socket.Options{MaxFrame: largest}, nil)
			c := dial(t, s.address)
			conn := receive(t, s.accepted)
			c.send(parts...)
			if name == "in many" {
				c.expect(fin|pong, "")
			}
			c.expectError(wire.PayloadTooLarge)
			c.expectClose(wire.CloseTooLarge)
			if end := s.awaitClose(); end != (socket.CloseError{Code: wire.CloseTooLarge}) {
				t.Errorf("Read returned %+v", end)
			}
			c.Close()
			s.awaitDone(conn)
		})
	}
}
