package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

type storeCmd struct{ apiClient }

// Run shows the shared store and its servers.
func (c *storeCmd) Run(ctx context.Context, io streams) error {
	return show(ctx, &c.apiClient, io, "GET", "/v1/store", nil, printStore)
}

func printStore(t *tabwriter.Writer, s *wire.StoreStatus) {
	state := "reachable"
	if !s.Reachable {
		state = strings.TrimSuffix("NOT REACHABLE: "+s.Problem, ": ")
	}
	fmt.Fprintf(t, "%s\n", joinWords(s.Kind, s.Mode, state))
	if s.CheckedMS > 0 {
		fmt.Fprintf(t, "the servers as they were %v ago\n",
			(time.Duration(s.GeneratedMS-s.CheckedMS) * time.Millisecond).Round(time.Second))
	}
	if l := s.Latency; l != nil {
		fmt.Fprintf(t, "calls of this instance in the last minute: %d, median %v ms, 99 %% %v ms, longest %v ms\n", l.Calls, l.P50MS,
			l.P99MS, l.MaxMS)
	}
	if len(s.Servers) == 0 {
		return
	}
	_ = t.Flush() // the columns below are others; an error of the terminal is returned by the last flush
	fmt.Fprintln(t, "\nSERVER\tROLE\tHEALTHY\tSLOTS\tVERSION\tMEMORY MIB\tOF\tPOLICY\tBEHIND BYTES\tPING MS\tCLIENTS\tUPTIME")
	for i := range s.Servers {
		v := &s.Servers[i]
		ping, uptime := "–", "–"
		if v.PingMS != nil {
			ping = fmt.Sprint(*v.PingMS)
		}
		if v.UptimeSeconds > 0 {
			uptime = (time.Duration(v.UptimeSeconds) * time.Second).String()
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", printable(v.Address), v.Role, yesNo(v.Healthy),
			cmp.Or(printable(v.Slots), "–"),
			cmp.Or(printable(v.Version), "–"), formatMiB(v.UsedMemory), formatMiB(v.MaxMemory), cmp.Or(printable(v.Policy), "–"),
			formatOptional(v.LagBytes), ping, v.Clients, uptime)
	}
}

// joinWords joins the words that are not empty.
func joinWords(words ...string) (text string) {
	for _, w := range words {
		if w != "" && text != "" {
			text += ", "
		}
		text += w
	}
	return text
}

// formatMiB formats a number of bytes; 0 is not known, or has no limit.
func formatMiB(bytes int64) string {
	if bytes == 0 {
		return "–"
	}
	return strconv.FormatFloat(float64(bytes)/(1<<20), 'f', 1, 64)
}
