package redistest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// answerTimeout is how long a server may take to answer. A stopped server never answers.
const answerTimeout = 5 * time.Second

// ReplyError is an error reply of Redis.
type ReplyError string

// Error implements error.
func (e ReplyError) Error() string { return string(e) }

// conn is a connection that speaks enough RESP2 to run commands. A client library would reconnect, retry and follow
// redirections, and so hide what the tests examine.
type conn struct {
	net.Conn
	replies *bufio.Reader
	timeout time.Duration // for each command
}

func dial(ctx context.Context, addr string, timeout time.Duration) (*conn, error) {
	dialer := net.Dialer{Timeout: timeout}
	c, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, replies: bufio.NewReader(c), timeout: timeout}, nil
}

// do sends a command and reads its reply: a string, an int64, nil or a []any of these. An error reply is returned as an
// ReplyError.
func (c *conn) do(args ...string) (any, error) {
	if err := c.SetDeadline(time.Now().Add(c.timeout)); err != nil {
		return nil, err
	}
	if err := c.send(args...); err != nil {
		return nil, err
	}
	reply, err := c.receive()
	if err != nil {
		return nil, err
	}
	if failure, refused := reply.(ReplyError); refused {
		return nil, failure
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
		return nil, fmt.Errorf("the reply is not RESP: %q", line)
	}
	kind, rest := line[0], line[1:len(line)-2]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return ReplyError(rest), nil
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the reply is not RESP: %q", line)
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
	return nil, fmt.Errorf("the reply has an unknown type: %q", line)
}

// info reads a section of INFO.
func (s *Server) info(section string) (map[string]string, error) {
	text, err := s.doText("INFO", section)
	if err != nil {
		return nil, err
	}
	return parseInfo(text), nil
}

func parseInfo(text string) map[string]string {
	found := make(map[string]string)
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			found[key] = value
		}
	}
	return found
}

// doText runs a command whose reply is a string.
func (s *Server) doText(args ...string) (string, error) {
	reply, err := s.Do(args...)
	if err != nil {
		return "", fmt.Errorf("%s at %s: %w", args[0], s.Addr(), err)
	}
	text, ok := reply.(string)
	if !ok {
		return "", fmt.Errorf("%s at %s replied %v, want a string", args[0], s.Addr(), reply)
	}
	return text, nil
}

// mustDo runs a command and fails the test if the command fails.
func (s *Server) mustDo(args ...string) any {
	s.tb.Helper()
	reply, err := s.Do(args...)
	if err != nil {
		s.tb.Fatalf("%s at %s: %v", strings.Join(args, " "), s.Addr(), err)
	}
	return reply
}

// CommandStats returns the number of calls of each command since the start or the last ResetStats, by the names of Redis:
// in lower case, a subcommand as "config|get". A script counts as one call, and each command that it calls counts too. The
// "info" and "config|resetstat" commands of this package are included.
func (s *Server) CommandStats() map[string]int64 {
	s.tb.Helper()
	info, err := s.info("commandstats")
	if err != nil {
		s.tb.Fatal(err)
	}
	calls := make(map[string]int64, len(info))
	for key, value := range info {
		first, _, _ := strings.Cut(value, ",")
		n, err := strconv.ParseInt(strings.TrimPrefix(first, "calls="), 10, 64)
		if err != nil {
			s.tb.Fatalf("INFO commandstats contains %s:%s", key, value)
		}
		calls[strings.TrimPrefix(key, "cmdstat_")] = n
	}
	return calls
}

// ResetStats resets the counts of CommandStats.
func (s *Server) ResetStats() {
	s.tb.Helper()
	s.mustDo("CONFIG", "RESETSTAT")
}

// Command is a command that a server ran.
type Command struct {
	At     int64 // microseconds, on the clock of the server
	Script bool  // called by a script
	Words  []string
}

// Monitor passes on every command that the server runs, and after a script the commands that it calls, until the context or
// the connection ends. It calls onStart when the server has started to report. It returns an error if a line of the server
// cannot be parsed.
func (s *Server) Monitor(ctx context.Context, onStart func(), onCommand func(Command)) error {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", s.Addr())
	if err != nil {
		return nil // the server is down, which is the same as a connection that ended
	}
	defer func() { _ = c.Close() }()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	if _, err := io.WriteString(c, "MONITOR\r\n"); err != nil {
		return nil
	}
	for lines := bufio.NewReaderSize(c, 1<<16); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return nil
		}
		if line == "+OK\r\n" {
			onStart()
			continue
		}
		command, err := parseCommand(strings.TrimSuffix(line, "\r\n"))
		if err != nil {
			return err
		}
		onCommand(command)
	}
}

// parseCommand parses a line of MONITOR: the time, the database and the client in brackets, and the quoted words.
func parseCommand(line string) (Command, error) {
	head, rest, _ := strings.Cut(line, "] ")
	stamp, caller, _ := strings.Cut(strings.TrimPrefix(head, "+"), " ")
	seconds, micros, _ := strings.Cut(stamp, ".")
	at, err := strconv.ParseInt(seconds+micros, 10, 64)
	c := Command{At: at, Script: strings.HasSuffix(caller, " lua")}
	for err == nil && rest != "" {
		var word, quoted string
		if quoted, err = strconv.QuotedPrefix(rest); err == nil {
			word, err = strconv.Unquote(quoted)
		}
		c.Words = append(c.Words, word)
		rest = strings.TrimPrefix(rest[len(quoted):], " ")
	}
	if err == nil && len(c.Words) == 0 {
		err = errors.New("no command")
	}
	if err != nil {
		return c, fmt.Errorf("MONITOR reported %.100q: %w", line, err)
	}
	return c, nil
}
