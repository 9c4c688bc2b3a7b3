package drill

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
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

// transcript makes scripts of the commands that a server runs. Those of a script follow it.
type transcript struct {
	tell func(script)
	open *script
}

// add takes in one of them.
func (t *transcript) add(c redistest.Command) {
	if c.Script {
		if t.open != nil && !reads[strings.ToUpper(c.Words[0])] {
			t.open.writes = append(t.open.writes, c.Words)
		}
		return
	}
	t.end()
	if len(c.Words) < 3 || !strings.HasPrefix(c.Words[0], "EVAL") {
		return
	}
	n, err := strconv.Atoi(c.Words[2])
	if err != nil || len(c.Words) < 3+n {
		return // which Redis refuses
	}
	t.open = &script{at: c.At / 1000, keys: c.Words[3 : 3+n], args: c.Words[3+n:]}
}

// end hands on the script at hand.
func (t *transcript) end() {
	if t.open != nil {
		t.tell(*t.open)
		t.open = nil
	}
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
			t := &transcript{tell: tell}
			err := server.Monitor(ctx, begin, t.add)
			t.end()
			if err != nil {
				failed(err)
				return
			}
			if !backoff.Sleep(ctx, 100*time.Millisecond) {
				return
			}
		}
	})
	<-begun
}
