package main

import (
	"cmp"
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// instanceCommands are about the instances and what they share.
type instanceCommands struct {
	Instances instancesCmd `cmd:"" help:"List the scheduler instances that share a fleet."`
	Store     storeCmd     `cmd:"" help:"Show the shared store and its servers."`
}

type instancesCmd struct{ apiClient }

// Run lists the instances that share a fleet.
func (c *instancesCmd) Run(ctx context.Context, io streams) error {
	var list wire.InstanceList
	if err := c.request(ctx, "GET", "/v1/instances", nil, &list); err != nil {
		return err
	}
	return c.print(io.out, list, func(t *tabwriter.Writer) {
		fmt.Fprintln(t, "INSTANCE\tINCARNATION\tSTATE\tNODES\tSESSIONS\tJOBS\tINBOX\t"+
			"DEAD LETTERS\tTAKEOVERS\tUPTIME\tVERSION\tKEYS\tADDRESS")
		for _, i := range list.Instances {
			state, uptime := "present", "–"
			switch {
			case !i.Present:
				state = "gone"
			case i.Draining:
				state = "draining"
			}
			if i.This {
				state += ", queried"
			}
			if i.StartedMS > 0 {
				uptime = time.Since(time.UnixMilli(i.StartedMS)).Round(time.Second).String()
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t%s\n", cmp.Or(i.InstanceID, "–"), i.Incarnation, state, i.Nodes,
				i.Sessions, i.Jobs,
				i.Inbox, i.DeadLetters, i.Takeovers, uptime, cmp.Or(i.Version, "–"), cmp.Or(i.KeysDigest, "–"), cmp.Or(i.AdvertiseURL, "–"))
		}
	})
}
