package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

type statsCmd struct{ apiClient }

// Run shows the statistics of the fleet.
func (c *statsCmd) Run(ctx context.Context, io streams) error {
	return show(ctx, &c.apiClient, io, "GET", "/api/v1/stats", nil, printStats)
}

func printStats(t *tabwriter.Writer, s *wire.Stats) {
	age := fmt.Sprintf("%.1f s old, computed by %s", (time.Duration(s.AgeMS) * time.Millisecond).Seconds(), s.GeneratedBy)
	if s.Stale {
		age += ", STALE"
	}
	n := &s.Nodes
	row := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	row("snapshot", "%s", age)
	row("nodes", "%d ready with %d of %d slots in use, %d degraded, %d draining, %d ejected, %d disconnected, %d offline", n.Ready,
		n.UsedSlots, n.Slots, n.Degraded, n.Draining, n.Ejected, n.Disconnected, n.Offline)
	row("now", "%d sessions, %d jobs in flight, instances: %d", s.Sessions, s.InFlight, s.Instances.Present)
	row("last 5 min", "%s", describeOutcomes(&s.Jobs.Last5m))
	row("last hour", "%s", describeOutcomes(&s.Jobs.LastHour))
	row("last day", "%s", describeOutcomes(&s.Jobs.LastDay))
	row("uncovered", "%s", describeDirections(s.Coverage.None))
	row("one node", "%s", describeDirections(s.Coverage.One))
	_ = t.Flush() // the columns below are others; an error of the terminal is returned by the last flush

	covered := make(map[string]wire.DirectionCoverage)
	for _, d := range slices.Concat(s.Coverage.None, s.Coverage.One, s.Coverage.More) {
		if d.PoolID == "" && d.TenantID == "" {
			covered[d.SrcLang+"→"+d.TgtLang] = d
		}
	}
	recent, hour := usesByDirection(&s.Languages.Last5m), usesByDirection(&s.Languages.LastHour)
	fmt.Fprintln(t, "\nDIRECTION\tLAST 5 MIN\tLAST HOUR\tLAST DAY\tREADY NODES\tSLOTS")
	for _, d := range s.Languages.LastDay.Directions {
		name := d.SrcLang + "→" + d.TgtLang
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\n", name, recent[name], hour[name], d.Jobs, covered[name].Ready, covered[name].Slots)
	}
	if s.Languages.LastDay.Other > 0 {
		fmt.Fprintf(t, "others\t%d\t%d\t%d\t\t\n", s.Languages.Last5m.Other, s.Languages.LastHour.Other, s.Languages.LastDay.Other)
	}
	printServices(t, &s.Compute)
}

// printServices lists the services that are installed, and those that the ModelHub lists and no node has.
func printServices(t *tabwriter.Writer, c *wire.StatsCompute) {
	if len(c.Services)+len(c.NotInstalled) == 0 {
		return
	}
	_ = t.Flush() // the columns below are others; an error of the terminal is returned by the last flush
	fmt.Fprintln(t, "\nSERVICE\tVERSION\tNEWEST\tINSTALLED\tREADY\tSLOTS\tNAME")
	for i := range c.Services {
		u := &c.Services[i]
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%d\t%s\n", printable(u.ServiceID), printable(u.Version), printable(u.LatestVersion),
			u.Installed, u.Ready, u.Slots, printable(u.Name))
	}
	for _, listed := range c.NotInstalled {
		newest := ""
		if len(listed.Versions) > 0 {
			newest = listed.Versions[0]
		}
		fmt.Fprintf(t, "%s\t\t%s\t0\t0\t0\t%s\n", printable(listed.ServiceID), printable(newest), printable(listed.Name))
	}
	if others := c.OtherServices + c.OtherNotInstalled; others > 0 {
		fmt.Fprintf(t, "and %d others\n", others)
	}
}

// describeOutcomes says how many jobs ended, and how.
func describeOutcomes(o *wire.StatsOutcomes) string {
	if o.Total == 0 {
		return "no jobs"
	}
	text := fmt.Sprintf("%d jobs: %s", o.Total, describeCounts(o.Outcomes))
	if len(o.Reasons) > 0 {
		text += " (" + describeCounts(o.Reasons) + ")"
	}
	return text
}

func describeCounts(counts map[string]int64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(parts, ", ")
}

// describeDirections lists directions, not more than fit into a line.
func describeDirections(all []wire.DirectionCoverage) string {
	const limit = 12
	var names []string
	for _, d := range all[:min(len(all), limit)] {
		names = append(names, describeCover(d.SrcLang, d.TgtLang, d.PoolID, d.TenantID))
	}
	switch {
	case len(all) == 0:
		return "none"
	case len(all) > limit:
		return fmt.Sprintf("%s and %d more", strings.Join(names, " "), len(all)-limit)
	}
	return strings.Join(names, " ")
}

// describeCover names a direction, and the pool or the tenant of which it is covered, if it is named.
func describeCover(src, tgt, pool, tenant string) string {
	name := src + "→" + tgt
	if group := describeCoverGroup(pool, tenant); group != "" {
		name += " (" + group + ")"
	}
	return name
}

func describeCoverGroup(pool, tenant string) string {
	var of []string
	if pool != "" {
		of = append(of, "pool "+printable(pool))
	}
	if tenant != "" {
		of = append(of, "tenant "+printable(tenant))
	}
	return strings.Join(of, " ")
}

func usesByDirection(u *wire.StatsUse) map[string]int64 {
	uses := make(map[string]int64)
	for _, d := range u.Directions {
		uses[d.SrcLang+"→"+d.TgtLang] = d.Jobs
	}
	return uses
}
