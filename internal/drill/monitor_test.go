package drill

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/pause"
	"github.com/lingua-scheduler/lingua/internal/redistest"
)

// script is one that a Redis ran: what it was given, and what it did.
type script struct {
	at     int64 // milliseconds, on that server's clock
	keys   []string
	args   []string
	writes [][]string // the commands by which it changed something
}

// reads are the commands of scripts that change nothing. One that is missing here is taken for a write and found out.
var reads = map[string]bool{
	"EXISTS": true, "GET": true, "GETRANGE": true, "HGET": true, "HMGET": true, "TIME": true, "XLEN": true, "XPENDING": true,
	"XRANGE": true, "XREVRANGE": true, "ZCARD": true, "ZCOUNT": true, "ZRANGE": true, "ZSCORE": true,
}

// transcript makes scripts of the lines in which MONITOR tells what a server does. The commands of a script follow it.
type transcript struct {
	tell func(script)
	open *script
}

// line takes in one of them.
func (t *transcript) line(text string) error {
	head, rest, ok := strings.Cut(text, "] ")
	stamp, client, isCommand := strings.Cut(head, " ")
	if !ok || !isCommand {
		return nil // OK, to begin with
	}
	if strings.HasSuffix(client, " lua") {
		words, err := unquoted(rest)
		if err == nil && t.open != nil && !reads[strings.ToUpper(words[0])] {
			t.open.writes = append(t.open.writes, words)
		}
		return err
	}
	t.end()
	if !strings.HasPrefix(rest, `"EVAL`) {
		return nil
	}
	words, err := unquoted(rest)
	if err != nil {
		return err
	}
	seconds, micros, _ := strings.Cut(stamp, ".")
	at, err := strconv.ParseInt(seconds+micros, 10, 64)
	n := len(words)
	if err == nil && n > 2 {
		n, err = strconv.Atoi(words[2])
	}
	if err != nil || len(words) < 3+n {
		return fmt.Errorf("not understood: %.100s", text)
	}
	t.open = &script{at: at / 1000, keys: words[3 : 3+n], args: words[3+n:]}
	return nil
}

// end hands on the script at hand.
func (t *transcript) end() {
	if t.open != nil {
		t.tell(*t.open)
		t.open = nil
	}
}

// unquoted are the words of a command, which MONITOR quotes as Go does.
func unquoted(text string) ([]string, error) {
	var words []string
	for text != "" {
		quoted, err := strconv.QuotedPrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%.100s: %w", text, err)
		}
		word, err := strconv.Unquote(quoted)
		if err != nil {
			return nil, fmt.Errorf("%.100s: %w", quoted, err)
		}
		words = append(words, word)
		text = strings.TrimPrefix(text[len(quoted):], " ")
	}
	if words == nil {
		return nil, fmt.Errorf("a command without a name")
	}
	return words, nil
}

// monitor tells all scripts that a server runs until the test ends, also after the server was started again. It returns
// when the server has begun to tell.
func monitor(tb testing.TB, server *redistest.Server, tell func(script), failed func(error)) {
	tb.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var works sync.WaitGroup
	tb.Cleanup(func() {
		stop()
		works.Wait()
	})
	begun := make(chan struct{})
	begin := sync.OnceFunc(func() { close(begun) })
	works.Go(func() {
		defer begin()
		for {
			if err := listen(ctx, server.Addr(), begin, &transcript{tell: tell}); err != nil {
				failed(err)
				return
			}
			if !pause.For(ctx, 100*time.Millisecond) {
				return
			}
		}
	})
	<-begun
}

// listen follows one connection to its end, which may be that of the server. An error is that it was not understood.
func listen(ctx context.Context, addr string, begun func(), t *transcript) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil // nobody is there now
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := io.WriteString(conn, "MONITOR\r\n"); err != nil {
		return nil
	}
	defer t.end()
	for in := bufio.NewReaderSize(conn, 1<<16); ; {
		text, err := in.ReadString('\n')
		if err != nil {
			return nil
		}
		begun()
		if err := t.line(strings.TrimSuffix(text, "\r\n")); err != nil {
			return err
		}
	}
}
