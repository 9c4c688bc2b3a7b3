package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
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
type logCommand[L, T any] struct {
	*apiClient
	name   string // of the entries
	path   string // of the list
	query  url.Values
	follow bool
	page   func(*L) logPage[T]
	format func(*T) string // as a line
}

// read requests the entries after a position.
func (c *logCommand[L, T]) read(ctx context.Context, after string) (list L, page logPage[T], err error) {
	q := maps.Clone(c.query)
	if after != "" {
		q.Set("after", after)
	}
	err = c.request(ctx, "GET", c.path+"?"+q.Encode(), nil, &list)
	page = c.page(&list)
	page.next = cmp.Or(page.next, after)
	return list, page, err
}

// run writes the entries after a position, or the newest, and with follow those after them until the context ends.
func (c *logCommand[L, T]) run(ctx context.Context, io streams, after string) error {
	list, page, err := c.read(ctx, after)
	switch {
	case err != nil:
		return err
	case c.JSON && !c.follow:
		return c.print(io.out, list, nil)
	case len(page.entries) == 0 && !c.follow:
		fmt.Fprintln(io.out, "no "+c.name)
	}
	for {
		if page.gap {
			fmt.Fprintf(io.err, "some %s were dropped from the log before they were read\n", c.name)
		}
		if err := c.write(io.out, page.entries); err != nil {
			return err
		}
		if !c.follow || !run.Sleep(ctx, followInterval) {
			return nil
		}
		_, next, err := c.read(ctx, page.next)
		if err == nil {
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
func (c *logCommand[L, T]) write(out io.Writer, entries []T) error {
	for i := range entries {
		if !c.JSON {
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
