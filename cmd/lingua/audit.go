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
	log := logCommand[wire.AuditList, wire.AuditEntry]{
		apiClient: &c.apiClient, name: "entries", path: "/v1/audit", follow: c.Follow, format: formatAuditEntry,
		query: makeQuery("key", c.Key, "action", c.Action, "outcome", c.Outcome, "limit", strconv.Itoa(min(c.Limit, maxLogPage))),
		page: func(l *wire.AuditList) logPage[wire.AuditEntry] {
			return logPage[wire.AuditEntry]{l.Entries, l.Next, l.Gap}
		},
	}
	return log.run(ctx, io, c.After)
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
