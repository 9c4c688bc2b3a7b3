package cluster

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/redistest"
)

// monitor counts the commands of servers by their key, also those that scripts call. What else is in a command is not
// looked at and not kept.
type monitor struct {
	conns   []net.Conn
	reading sync.WaitGroup

	mu     sync.Mutex
	keys   map[string]int
	all    int   // commands that have a key
	broken error // a server that could not be read to the end
}

// listen begins to count. Every server has answered that it does.
func listen(tb testing.TB, servers []*redistest.Server) *monitor {
	tb.Helper()
	m := &monitor{keys: make(map[string]int)}
	tb.Cleanup(m.close)
	for _, server := range servers {
		c, err := net.DialTimeout("tcp", server.Addr(), 5*time.Second)
		if err != nil {
			tb.Fatal(err)
		}
		m.conns = append(m.conns, c)
		if _, err := c.Write([]byte("MONITOR\r\n")); err != nil {
			tb.Fatal(err)
		}
		lines := bufio.NewReaderSize(c, 1<<20)
		if said, err := lines.ReadString('\n'); err != nil || said != "+OK\r\n" {
			tb.Fatalf("MONITOR: %q, %v", said, err)
		}
		m.reading.Go(func() { m.read(lines) })
	}
	return m
}

// endOf is a key that nobody uses: who reads a command on it has read all before it.
const endOf = "monitor:end"

// stop has all that was done until now counted, and returns the counts.
func (m *monitor) stop(tb testing.TB, servers []*redistest.Server) (keys map[string]int, all int) {
	tb.Helper()
	for _, server := range servers {
		// The server may say that another has the slot. The monitor hears of the command only if it is run, so it is
		// one that every server runs.
		if _, err := server.Do("ECHO", endOf); err != nil {
			tb.Fatal(err)
		}
	}
	for _, c := range m.conns {
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	}
	m.reading.Wait()
	m.close()
	if m.broken != nil {
		tb.Fatal("a monitor lost its connection: ", m.broken)
	}
	return m.keys, m.all
}

func (m *monitor) close() {
	for _, c := range m.conns {
		_ = c.Close()
	}
	m.reading.Wait()
}

// read counts lines until the end.
func (m *monitor) read(lines *bufio.Reader) {
	for {
		line, err := lines.ReadString('\n')
		m.mu.Lock()
		if err != nil {
			m.broken = err
			m.mu.Unlock()
			return
		}
		words := wordsOf(line)
		if len(words) == 2 && words[1] == endOf {
			m.mu.Unlock()
			return
		}
		if key, ok := keyOf(words); ok {
			m.keys[key]++
			m.all++
		}
		m.mu.Unlock()
	}
}

// wordsOf takes a line of MONITOR apart: after the time, and the database and the caller in brackets, come quoted words.
func wordsOf(line string) []string {
	_, rest, _ := strings.Cut(line, "] ")
	var words []string
	for rest = strings.TrimSpace(rest); strings.HasPrefix(rest, `"`); rest = strings.TrimSpace(rest) {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			break
		}
		word, err := strconv.Unquote(quoted)
		if err != nil {
			break
		}
		words, rest = append(words, word), rest[len(quoted):]
	}
	return words
}

// keyless are commands that have no key.
var keyless = map[string]bool{
	"time": true, "ping": true, "info": true, "echo": true, "hello": true, "client": true, "cluster": true, "config": true, "script": true,
	"command": true, "select": true, "dbsize": true, "scan": true, "readonly": true, "replconf": true, "psync": true, "role": true,
	"auth": true, "function": true,
}

// keyOf is the first key of a command.
func keyOf(words []string) (string, bool) {
	if len(words) < 2 {
		return "", false
	}
	at := 1
	switch name := strings.ToLower(words[0]); name {
	case "eval", "evalsha", "eval_ro", "evalsha_ro":
		if at = 3; len(words) > 2 && words[2] == "0" {
			return "", false
		}
	case "xinfo", "xgroup":
		at = 2
	case "xread", "xreadgroup":
		for at < len(words) && !strings.EqualFold(words[at], "streams") {
			at++
		}
		at++
	default:
		if keyless[name] {
			return "", false
		}
	}
	if at >= len(words) {
		return "", false
	}
	return words[at], true
}

func TestMonitorFindsKeys(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`+1.2 [0 127.0.0.1:1] "EVALSHA" "abc" "2" "p:{a}:x" "p:{a}:y" "\xff\"] \\"`:                 "p:{a}:x",
		`+1.2 [0 lua] "HSET" "p:{a}:x" "f" "v"`:                                                     "p:{a}:x",
		`+1.2 [0 127.0.0.1:1] "XREADGROUP" "GROUP" "i" "i" "BLOCK" "9" "STREAMS" "p:{i}:inbox" ">"`: "p:{i}:inbox",
		`+1.2 [0 127.0.0.1:1] "XINFO" "STREAM" "p:changes"`:                                         "p:changes",
		`+1.2 [0 lua] "TIME"`:                      "",
		`+1.2 [0 127.0.0.1:1] "EVALSHA" "abc" "0"`: "",
		`+1.2 [0 127.0.0.1:1] "CLUSTER" "SLOTS"`:   "",
	} {
		if got, ok := keyOf(wordsOf(line + "\r\n")); got != want || ok != (want != "") {
			t.Errorf("%s: got %q, %t, want %q", line, got, ok, want)
		}
	}
}

// share writes a part of a whole.
func share(n, of int) string { return fmt.Sprintf("%.2f %%", 100*float64(n)/float64(of)) }
