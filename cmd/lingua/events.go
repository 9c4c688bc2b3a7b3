package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/wire"
)

type eventsCmd struct {
	apiClient
	Kind   string `help:"Only events of this kind, such as node_lost or takeover." placeholder:"KIND"`
	Node   string `help:"Only events about this node." placeholder:"ID"`
	After  string `help:"Only events after this position: the id of an event." placeholder:"ID"`
	Limit  int    `help:"Maximum number of events; without --after the newest." default:"100"`
	Follow bool   `short:"f" help:"Go on with new events until Ctrl-C. With --json, one event a line."`
}

// Validate checks the flags before a request is sent.
func (c *eventsCmd) Validate() error { return checkLimit(c.Limit) }

// followInterval is how often new events are asked for.
const followInterval = time.Second

// Run lists events, or follows them.
func (c *eventsCmd) Run(ctx context.Context, io streams) error {
	page, err := c.read(ctx, c.After)
	if err != nil {
		return err
	}
	if c.JSON && !c.Follow {
		return c.print(io.out, page, nil)
	}
	if len(page.Events) == 0 && !c.Follow {
		fmt.Fprintln(io.out, "no events")
	}
	for {
		if page.Gap {
			fmt.Fprintln(io.err, "some events were dropped from the log before they were read")
		}
		if err := c.writeEvents(io.out, page.Events); err != nil {
			return err
		}
		if !c.Follow || !backoff.Sleep(ctx, followInterval) {
			return nil
		}
		next, err := c.read(ctx, page.Next)
		if err == nil {
			page = next
			continue
		}
		page.Events, page.Gap = nil, false
		if ctx.Err() == nil { // a restart of the scheduler does not end it
			fmt.Fprintln(io.err, "lingua:", err)
		}
	}
}

// read reads the events after a position.
func (c *eventsCmd) read(ctx context.Context, after string) (wire.EventList, error) {
	q := makeQuery("after", after, "kind", c.Kind, "node", c.Node, "limit", strconv.Itoa(min(c.Limit, maxEventPage)))
	var page wire.EventList
	err := c.request(ctx, "GET", "/v1/events?"+q.Encode(), nil, &page)
	if page.Next == "" {
		page.Next = after
	}
	return page, err
}

// maxEventPage is how many events one request can return.
const maxEventPage = 1000

func (c *eventsCmd) writeEvents(out io.Writer, events []wire.Event) error {
	for i := range events {
		e := &events[i]
		if c.JSON {
			line, err := json.Marshal(e)
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "%s\n", line)
			continue
		}
		facts := []string{e.Detail}
		if e.Jobs > 0 {
			facts = append(facts, fmt.Sprintf("%d jobs moved", e.Jobs))
		}
		fmt.Fprintf(out, "%s  %-17s  %-20s  %s\n", time.UnixMilli(e.AtMS).Format("2006-01-02 15:04:05.000"), e.Kind, cmp.Or(e.NodeID, "–"),
			strings.TrimSpace(strings.Trim(strings.Join(facts, ", "), ", ")+"  (by "+e.Instance+")"))
	}
	return nil
}
