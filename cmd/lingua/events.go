package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

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

// Run lists events, or follows them.
func (c *eventsCmd) Run(ctx context.Context, io streams) error {
	log := logCommand[wire.EventList, wire.Event]{
		apiClient: &c.apiClient, name: "events", path: "/v1/events", follow: c.Follow, format: formatEvent,
		query: makeQuery("kind", c.Kind, "node", c.Node, "limit", strconv.Itoa(min(c.Limit, maxLogPage))),
		page:  func(l *wire.EventList) logPage[wire.Event] { return logPage[wire.Event]{l.Events, l.Next, l.Gap} },
	}
	return log.run(ctx, io, c.After)
}

func formatEvent(e *wire.Event) string {
	facts := []string{printable(e.Detail)}
	if e.Jobs > 0 {
		facts = append(facts, fmt.Sprintf("%d jobs moved", e.Jobs))
	}
	return fmt.Sprintf("%s  %-17s  %-20s  %s", formatTime(e.AtMS), e.Kind, cmp.Or(e.NodeID, "–"),
		strings.TrimSpace(strings.Trim(strings.Join(facts, ", "), ", ")+"  (by "+e.Instance+")"))
}
