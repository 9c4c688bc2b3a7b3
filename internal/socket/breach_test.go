package socket_test

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/wire"
)

// announced is the head of a frame that says a length of eight bytes and does not follow it up.
func announced(first byte, length uint64) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{first, maskBit | 127}, length), mask[:]...)
}

// TestBreaches: what is not as RFC 6455 says is answered with an error frame and a close that says why.
func TestBreaches(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		code  wire.CloseCode
		parts [][]byte
	}{
		"reserved bit 1":                          {1002, [][]byte{frame(fin|rsv1|text, "x")}},
		"reserved bit 2":                          {1002, [][]byte{frame(fin|rsv2|text, "x")}},
		"reserved bit 3":                          {1002, [][]byte{frame(fin|rsv3|binaryFrame, "x")}},
		"reserved bit on a ping":                  {1002, [][]byte{frame(fin|rsv1|ping, "x")}},
		"reserved bit on a close":                 {1002, [][]byte{frame(fin|rsv2|closeFrame, "\x03\xe8")}},
		"reserved bit on a continuation":          {1002, [][]byte{frame(text, "x"), frame(fin|rsv1|more, "y")}},
		"opcode 3":                                {1002, [][]byte{frame(fin|0x3, "x")}},
		"opcode 4":                                {1002, [][]byte{frame(fin|0x4, "")}},
		"opcode 5":                                {1002, [][]byte{frame(fin|0x5, "")}},
		"opcode 6":                                {1002, [][]byte{frame(fin|0x6, "")}},
		"opcode 7":                                {1002, [][]byte{frame(fin|0x7, "x")}},
		"opcode 11":                               {1002, [][]byte{frame(fin|0xB, "")}},
		"opcode 12":                               {1002, [][]byte{frame(fin|0xC, "")}},
		"opcode 13":                               {1002, [][]byte{frame(fin|0xD, "")}},
		"opcode 14":                               {1002, [][]byte{frame(fin|0xE, "")}},
		"opcode 15":                               {1002, [][]byte{frame(fin|0xF, "x")}},
		"opcode 3 between fragments":              {1002, [][]byte{frame(text, "x"), frame(fin|0x3, "x")}},
		"text without a mask":                     {1002, [][]byte{bare(fin|text, "x")}},
		"ping without a mask":                     {1002, [][]byte{bare(fin|ping, "")}},
		"close without a mask":                    {1002, [][]byte{bare(fin|closeFrame, "\x03\xe8")}},
		"ping of 126 bytes":                       {1002, [][]byte{frame(fin|ping, strings.Repeat("x", 126))}},
		"pong of 70,000 bytes":                    {1002, [][]byte{frame(fin|pong, strings.Repeat("x", 70_000))}},
		"close of 126 bytes":                      {1002, [][]byte{leaving(1000, strings.Repeat("x", 124))}},
		"ping in fragments":                       {1002, [][]byte{frame(ping, "x"), frame(fin|more, "y")}},
		"pong in fragments":                       {1002, [][]byte{frame(pong, "x")}},
		"close in fragments":                      {1002, [][]byte{frame(closeFrame, "\x03\xe8")}},
		"continuation of nothing":                 {1002, [][]byte{frame(fin|more, "x")}},
		"continuation of nothing, with more":      {1002, [][]byte{frame(more, "x")}},
		"continuation after a whole message":      {1002, [][]byte{frame(text, "x"), frame(more, "y"), frame(fin|text, "z")}},
		"a text within a text":                    {1002, [][]byte{frame(text, "x"), frame(fin|text, "y")}},
		"a binary within a text":                  {1002, [][]byte{frame(text, "x"), frame(binaryFrame, "y")}},
		"a length with its highest bit set":       {1002, [][]byte{announced(fin|binaryFrame, 1<<63)}},
		"close of one byte":                       {1002, [][]byte{frame(fin|closeFrame, "\x03")}},
		"close with 0":                            {1002, [][]byte{leaving(0, "")}},
		"close with 999":                          {1002, [][]byte{leaving(999, "")}},
		"close with 1004":                         {1002, [][]byte{leaving(1004, "")}},
		"close with 1005":                         {1002, [][]byte{leaving(1005, "")}},
		"close with 1006":                         {1002, [][]byte{leaving(1006, "")}},
		"close with 1015":                         {1002, [][]byte{leaving(1015, "")}},
		"close with 1016":                         {1002, [][]byte{leaving(1016, "")}},
		"close with 2999":                         {1002, [][]byte{leaving(2999, "")}},
		"close with 5000":                         {1002, [][]byte{leaving(5000, "")}},
		"close with 65535":                        {1002, [][]byte{leaving(65535, "")}},
		"close whose reason is not UTF-8":         {1007, [][]byte{leaving(1000, "\xce\xba\xe1\xbd\xb9\xcf\x83\xed\xa0\x80")}},
		"a byte that begins nothing":              {1007, [][]byte{frame(fin|text, "a\xffb")}},
		"a character that is cut off":             {1007, [][]byte{frame(fin|text, "a\xe4\xbd")}},
		"a character that is cut off by the next": {1007, [][]byte{frame(text, "\xe4\xbd"), frame(fin|more, "x")}},
		"a surrogate":                             {1007, [][]byte{frame(fin|text, "\xed\xa0\x80")}},
		"a pair of surrogates":                    {1007, [][]byte{frame(text, "\xed\xa0\xbd"), frame(fin|more, "\xed\xb8\x80")}},
		"a character written too long":            {1007, [][]byte{frame(fin|text, "\xc0\xaf")}},
		"beyond the last character":               {1007, [][]byte{frame(fin|text, "\xf4\x90\x80\x80")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t, socket.Options{}, nil)
			c := dial(t, p.address)
			conn := soon(t, p.opened)
			// What was right before is answered, and what comes after is not.
			c.send(append([][]byte{frame(fin|ping, "before")}, append(row.parts, frame(fin|text, "after"), frame(fin|ping, "after"))...)...)
			c.expect(fin|pong, "before")
			c.expectError(wire.InvalidRequest)
			c.expectClose(row.code)
			if end := p.closed(); end != (socket.CloseError{Code: row.code}) {
				t.Errorf("Read returned %+v", end)
			}
			c.Close()
			p.gone(conn)
		})
	}
}
