package cluster

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/test/redistest"
)

// keyCounter counts the commands of servers by their first key, including those that scripts call.
type keyCounter struct {
	servers []*redistest.Server
	done    chan struct{} // closed when all servers were read to the end

	mu       sync.Mutex
	keys     map[string]int
	commands int // that have a key
	finished map[*redistest.Server]bool
	errs     []error
}

// startKeyCounter starts to count the commands of all servers.
func startKeyCounter(tb testing.TB, servers []*redistest.Server) *keyCounter {
	tb.Helper()
	c := &keyCounter{servers: servers, done: make(chan struct{}), keys: make(map[string]int), finished: make(map[*redistest.Server]bool)}
	for _, server := range servers {
		clustertest.MonitorCommands(tb, server, func(cmd redistest.Command) { c.add(server, cmd.Words) }, func() {}, c.addError)
	}
	return c
}

// endMarker is a word that no other command contains. All commands before it were counted when it is read.
const endMarker = "monitor:end"

// total waits until all commands up to now are counted, and returns the counts. It can be called once.
func (c *keyCounter) total(tb testing.TB) (keys map[string]int, commands int) {
	tb.Helper()
	for _, server := range c.servers {
		// A server of a cluster runs ECHO itself; a command with a key it might redirect, and not report.
		if _, err := server.Do("ECHO", endMarker); err != nil {
			tb.Fatal(err)
		}
	}
	timeout := time.NewTimer(20 * time.Second)
	defer timeout.Stop()
	select {
	case <-c.done:
	case <-timeout.C:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.errs) > 0 || len(c.finished) != len(c.servers) {
		tb.Fatalf("%d of %d servers were read to the end: %v", len(c.finished), len(c.servers), errors.Join(c.errs...))
	}
	return c.keys, c.commands
}

func (c *keyCounter) addError(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errs = append(c.errs, err)
}

// add counts a command. Commands after the end marker do not count.
func (c *keyCounter) add(server *redistest.Server, words []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.finished[server] {
		return
	}
	if len(words) == 2 && words[1] == endMarker {
		c.finished[server] = true
		if len(c.finished) == len(c.servers) {
			close(c.done)
		}
		return
	}
	if key, ok := firstKey(words); ok {
		c.keys[key]++
		c.commands++
	}
}

// keyless are the commands without a key.
var keyless = map[string]bool{
	"time": true, "ping": true, "info": true, "echo": true, "hello": true, "client": true, "cluster": true, "config": true, "script": true,
	"command": true, "select": true, "dbsize": true, "scan": true, "readonly": true, "replconf": true, "psync": true, "role": true,
	"auth": true, "function": true,
}

// firstKey returns the first key of a command.
func firstKey(words []string) (string, bool) {
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

func TestFirstKeyOfCommand(t *testing.T) {
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
		if got, ok := firstKey(strings.Fields(line)); got != want || ok != (want != "") {
			t.Errorf("%s: got %q, %t, want %q", line, got, ok, want)
		}
	}
}

// percent formats a share in percent.
func percent(n, of int) string { return fmt.Sprintf("%.2f %%", 100*float64(n)/float64(of)) }
