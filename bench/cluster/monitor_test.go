package cluster

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/redistest"
)

// monitor counts the commands of servers by their key, also those that scripts call. What else is in a command is not
// looked at and not kept.
type monitor struct {
	reading sync.WaitGroup
	stop    context.CancelFunc

	mu     sync.Mutex
	keys   map[string]int
	all    int   // commands that have a key
	ended  int   // servers that were read to the end
	broken error // one that was not understood
}

// listen begins to count. Every server has answered that it does.
func listen(tb testing.TB, servers []*redistest.Server) *monitor {
	tb.Helper()
	ctx, stop := context.WithCancel(context.Background())
	m := &monitor{keys: make(map[string]int), stop: stop}
	tb.Cleanup(m.close)
	for _, server := range servers {
		begun := make(chan struct{})
		begin := sync.OnceFunc(func() { close(begun) })
		m.reading.Go(func() {
			defer begin()
			read, done := context.WithCancel(ctx)
			defer done()
			if err := server.Monitor(read, begin, func(c redistest.Command) { m.count(c.Words, done) }); err != nil {
				m.mu.Lock()
				defer m.mu.Unlock()
				m.broken = err
			}
		})
		<-begun
	}
	return m
}

// endOf is a word that nobody uses: who reads a command with it has read all before it.
const endOf = "monitor:end"

// total has all that was done until now counted, and returns the counts.
func (m *monitor) total(tb testing.TB, servers []*redistest.Server) (keys map[string]int, all int) {
	tb.Helper()
	for _, server := range servers {
		// The server may say that another has the slot. The monitor hears of the command only if it is run, so it is
		// one that every server runs.
		if _, err := server.Do("ECHO", endOf); err != nil {
			tb.Fatal(err)
		}
	}
	late := time.AfterFunc(20*time.Second, m.stop)
	defer late.Stop()
	m.reading.Wait()
	if m.broken != nil || m.ended != len(servers) {
		tb.Fatalf("%d of %d servers were read to the end: %v", m.ended, len(servers), m.broken)
	}
	return m.keys, m.all
}

func (m *monitor) close() {
	m.stop()
	m.reading.Wait()
}

// count takes in a command; the last is followed by none.
func (m *monitor) count(words []string, done context.CancelFunc) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(words) == 2 && words[1] == endOf {
		m.ended++
		done()
		return
	}
	if key, ok := keyOf(words); ok {
		m.keys[key]++
		m.all++
	}
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

func TestKeysOfCommands(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"EVALSHA abc 2 p:{a}:x p:{a}:y z":                    "p:{a}:x",
		"HSET p:{a}:x f v":                                   "p:{a}:x",
		"XREADGROUP GROUP i i BLOCK 9 STREAMS p:{i}:inbox >": "p:{i}:inbox",
		"XINFO STREAM p:changes":                             "p:changes",
		"TIME":                                               "",
		"EVALSHA abc 0":                                      "",
		"CLUSTER SLOTS":                                      "",
	} {
		if got, ok := keyOf(strings.Fields(line)); got != want || ok != (want != "") {
			t.Errorf("%s: got %q, %t, want %q", line, got, ok, want)
		}
	}
}

// share writes a part of a whole.
func share(n, of int) string { return fmt.Sprintf("%.2f %%", 100*float64(n)/float64(of)) }
