package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
)

// followInterval is how often new entries of a log are asked for.
const followInterval = time.Second

// maxLogPage is how many entries of a log one request can return.
const maxLogPage = 1000

// logPage is a part of a log.
type logPage[T any] struct {
	entries []T
	next    string // the position after the last entry
	gap     bool   // entries before the first were dropped
}

// logCommand lists the entries of a log, or follows them.
type logCommand[T any] struct {
	name         string // of the entries
	json, follow bool
	read         func(ctx context.Context, after string) (logPage[T], error)
	format       func(*T) string // as a line
}

// run writes a page, and with follow those after it until the context ends.
func (c *logCommand[T]) run(ctx context.Context, io streams, page logPage[T]) error {
	if len(page.entries) == 0 && !c.follow {
		fmt.Fprintln(io.out, "no "+c.name)
	}
	for {
		if page.gap {
			fmt.Fprintf(io.err, "some %s were dropped from the log before they were read\n", c.name)
		}
		if err := c.write(io.out, page.entries); err != nil {
			return err
		}
		if !c.follow || !backoff.Sleep(ctx, followInterval) {
			return nil
		}
		next, err := c.read(ctx, page.next)
		if err == nil {
			if next.next == "" {
				next.next = page.next
			}
			page = next
			continue
		}
		page.entries, page.gap = nil, false
		if ctx.Err() == nil { // a restart of the scheduler does not end it
			fmt.Fprintln(io.err, "lingua:", err)
		}
	}
}

// write writes entries, one a line.
func (c *logCommand[T]) write(out io.Writer, entries []T) error {
	for i := range entries {
		if !c.json {
			fmt.Fprintln(out, c.format(&entries[i]))
			continue
		}
		line, err := json.Marshal(&entries[i])
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s\n", line)
	}
	return nil
}

// formatTime formats the time of an entry.
func formatTime(ms int64) string { return time.UnixMilli(ms).Format("2006-01-02 15:04:05.000") }
