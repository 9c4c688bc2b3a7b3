package redistest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// patience is how long a server may take to answer. One that is stopped never does.
const patience = 5 * time.Second

// ErrorReply is an error that Redis itself answered, in its words.
type ErrorReply string

// Error implements error.
func (e ErrorReply) Error() string { return string(e) }

// conn speaks just enough RESP2 to command a server. A client library would reconnect, retry and follow
// redirections, all of which would hide what the harness looks at.
type conn struct {
	net.Conn
	replies  *bufio.Reader
	patience time.Duration // how long a command may take
}

func dial(ctx context.Context, addr string, patience time.Duration) (*conn, error) {
	dialer := net.Dialer{Timeout: patience}
	c, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, replies: bufio.NewReader(c), patience: patience}, nil
}

// do sends a command and reads its reply: a string, an int64, nil or a []any of these. An error that Redis
// answers is an ErrorReply.
func (c *conn) do(args ...string) (any, error) {
	if err := c.SetDeadline(time.Now().Add(c.patience)); err != nil {
		return nil, err
	}
	if err := c.send(args...); err != nil {
		return nil, err
	}
	reply, err := c.receive()
	if err != nil {
		return nil, err
	}
	if said, refused := reply.(ErrorReply); refused {
		return nil, said
	}
	return reply, nil
}

func (c *conn) send(args ...string) error {
	command := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, arg := range args {
		command = fmt.Appendf(command, "$%d\r\n%s\r\n", len(arg), arg)
	}
	_, err := c.Write(command)
	return err
}

func (c *conn) receive() (any, error) {
	line, err := c.replies.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < len("+\r\n") {
		return nil, fmt.Errorf("a reply that is not RESP: %q", line)
	}
	kind, rest := line[0], line[1:len(line)-2]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return ErrorReply(rest), nil
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	switch {
	case err != nil:
		return nil, fmt.Errorf("a reply that is not RESP: %q", line)
	case kind == ':':
		return n, nil
	case n < 0:
		return nil, nil
	case kind == '$':
		text := make([]byte, n+2)
		_, err := io.ReadFull(c.replies, text)
		return string(text[:n]), err
	case kind == '*':
		all := make([]any, n)
		for i := range all {
			if all[i], err = c.receive(); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
	return nil, fmt.Errorf("a reply of an unknown kind: %q", line)
}
