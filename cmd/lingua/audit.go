package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/lingua-scheduler/lingua/wire"
)

type auditCmd struct {
	apiClient
	Key     string `help:"Only entries about this key, by its name." placeholder:"NAME"`
	Action  string `help:"Only entries with this action, such as node.drain or session.mint." placeholder:"ACTION"`
	Outcome string `help:"Only entries with this outcome: ok, denied or failed." placeholder:"OUTCOME"`
	After   string `help:"Only entries after this position: the id of an entry." placeholder:"ID"`
	Limit   int    `help:"Maximum number of entries; without --after the newest." default:"100"`
	Follow  bool   `short:"f" help:"Go on with new entries until Ctrl-C. With --json, one entry a line."`
}

// Validate checks the flags before a request is sent.
func (c *auditCmd) Validate() error { return checkLimit(c.Limit) }

// Run lists entries of the audit log, or follows them.
func (c *auditCmd) Run(ctx context.Context, io streams) error {
	list, err := c.list(ctx, c.After)
	if err != nil {
		return err
	}
	if c.JSON && !c.Follow {
		return c.print(io.out, list, nil)
	}
	log := logCommand[wire.AuditEntry]{name: "entries", json: c.JSON, follow: c.Follow, format: formatAuditEntry, read: func(ctx context.Context, after string) (logPage[wire.AuditEntry], error) {
		list, err := c.list(ctx, after)
		return logPage[wire.AuditEntry]{list.Entries, list.Next, list.Gap}, err
	}}
	return log.run(ctx, io, logPage[wire.AuditEntry]{list.Entries, cmp.Or(list.Next, c.After), list.Gap})
}

// list requests the entries after a position.
func (c *auditCmd) list(ctx context.Context, after string) (list wire.AuditList, err error) {
	q := makeQuery("after", after, "key", c.Key, "action", c.Action, "outcome", c.Outcome, "limit", strconv.Itoa(min(c.Limit, maxLogPage)))
	err = c.request(ctx, "GET", "/v1/audit?"+q.Encode(), nil, &list)
	return list, err
}

func formatAuditEntry(e *wire.AuditEntry) string {
	who := cmp.Or(e.Key, e.Role, "–")
	if e.TenantID != "" {
		who += "@" + e.TenantID
	}
	facts := []string{e.Outcome}
	if e.Reason != "" {
		facts = append(facts, e.Reason)
	}
	if e.Suppressed > 0 {
		facts = append(facts, fmt.Sprintf("(%d before it were left out)", e.Suppressed))
	}
	return fmt.Sprintf("%s  %-20s  %-16s  %-28s  %s  (from %s, %s by %s)", formatTime(e.AtMS), who, e.Action, cmp.Or(e.Object, "–"),
		strings.Join(facts, " "), cmp.Or(e.Address, "–"), cmp.Or(e.RequestID, "–"), e.Instance)
}
