package clustertest

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/test/redistest"
)

// Script is one run of a script: its arguments and the commands that it called.
type Script struct {
	AtMS   int64 // milliseconds, on the clock of the server
	Keys   []string
	Args   []string
	Writes [][]string // the commands that may change data
}

// readCommands are the commands that change nothing. A command that is missing here counts as a write, which shows as a
// violation.
var readCommands = map[string]bool{
	"EXISTS": true, "GET": true, "GETRANGE": true, "HGET": true, "HMGET": true, "TIME": true, "XLEN": true, "XPENDING": true,
	"XRANGE": true, "XREVRANGE": true, "ZCARD": true, "ZCOUNT": true, "ZRANGE": true, "ZSCORE": true,
}

// scriptParser assembles scripts from the commands that a server runs. The commands that a script calls follow it.
type scriptParser struct {
	onScript func(Script)
	current  *Script
}

// add adds the next command.
func (p *scriptParser) add(c redistest.Command) {
	if c.Script {
		if p.current != nil && !readCommands[strings.ToUpper(c.Words[0])] {
			p.current.Writes = append(p.current.Writes, c.Words)
		}
		return
	}
	p.end()
	if len(c.Words) < 3 || !strings.HasPrefix(c.Words[0], "EVAL") {
		return
	}
	n, err := strconv.Atoi(c.Words[2])
	if err != nil || len(c.Words) < 3+n {
		return // Redis rejects such a command
	}
	p.current = &Script{AtMS: c.At / 1000, Keys: c.Words[3 : 3+n], Args: c.Words[3+n:]}
}

// end passes on the present script.
func (p *scriptParser) end() {
	if p.current != nil {
		p.onScript(*p.current)
		p.current = nil
	}
}

// MonitorScripts passes on all scripts that a server runs, as MonitorCommands does with commands.
func MonitorScripts(tb testing.TB, server *redistest.Server, onScript func(Script), onError func(error)) {
	tb.Helper()
	p := &scriptParser{onScript: onScript}
	MonitorCommands(tb, server, p.add, p.end, onError)
}

// MonitorCommands passes on all commands that a server runs until the end of the test, also after the server was restarted. It
// returns when the server has started to report. onDisconnect is called whenever the connection to the server ends, onError at
// most once, when the server reports something that cannot be parsed.
func MonitorCommands(tb testing.TB, server *redistest.Server, onCommand func(redistest.Command), onDisconnect func(), onError func(error)) {
	tb.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(tb.Context()))
	var running sync.WaitGroup
	tb.Cleanup(func() {
		stop()
		running.Wait()
	})
	started := make(chan struct{})
	markStarted := sync.OnceFunc(func() { close(started) })
	running.Go(func() {
		defer markStarted()
		for {
			err := server.Monitor(ctx, markStarted, onCommand)
			onDisconnect()
			if err != nil {
				onError(err)
				return
			}
			if !run.Sleep(ctx, 100*time.Millisecond) {
				return
			}
		}
	})
	<-started
}
