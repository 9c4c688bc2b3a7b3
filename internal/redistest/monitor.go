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
)

// Command is one that a server ran.
type Command struct {
	At     int64 // microseconds, on the server's clock
	Script bool  // a script called it
	Words  []string
}

// Monitor tells every command that the server runs, and after a script those that it calls, until the context or the
// connection ends. An error is that the server was not understood. Begun is called when it has begun to tell.
func (s *Server) Monitor(ctx context.Context, begun func(), tell func(Command)) error {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", s.Addr())
	if err != nil {
		return nil // nobody is there: the connection has ended before it began
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
			begun()
			continue
		}
		command, err := readCommand(strings.TrimSuffix(line, "\r\n"))
		if err != nil {
			return err
		}
		tell(command)
	}
}

// readCommand takes a line of MONITOR apart: the time, the database and the caller in brackets, and quoted words.
func readCommand(line string) (Command, error) {
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
		return c, fmt.Errorf("MONITOR said %.100q: %w", line, err)
	}
	return c, nil
}
