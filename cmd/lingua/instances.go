package main

import (
	"cmp"
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

type instancesCmd struct{ apiClient }

// Run lists the instances that share a fleet.
func (c *instancesCmd) Run(ctx context.Context, io streams) error {
	return show(ctx, &c.apiClient, io, "GET", "/v1/instances", nil, func(t *tabwriter.Writer, list *wire.InstanceList) {
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
