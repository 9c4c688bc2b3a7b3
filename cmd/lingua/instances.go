package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

type instancesCmd struct{ remote }

// Run lists the schedulers that share a fleet.
func (c *instancesCmd) Run(ctx context.Context, io streams) error {
	var list wire.InstanceList
	if err := c.ask(ctx, "GET", "/v1/instances", nil, &list); err != nil {
		return err
	}
	return c.print(io.out, list, func(t *tabwriter.Writer) {
		fmt.Fprintln(t, "INSTANCE\tLIFE\tSTATE\tNODES\tSESSIONS\tJOBS\tINBOX\tDEAD\tUP\tVERSION\tADDRESS")
		for _, i := range list.Instances {
			state, up := "present", "–"
			switch {
			case !i.Present:
				state = "gone"
			case i.Draining:
				state = "draining"
			}
			if i.This {
				state += ", asked"
			}
			if i.StartedMS > 0 {
				up = time.Since(time.UnixMilli(i.StartedMS)).Round(time.Second).String()
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\n", cmp.Or(i.InstanceID, "–"), i.Incarnation, state, i.Nodes, i.Sessions, i.Jobs,
				i.Inbox, i.DeadLetters, up, cmp.Or(i.Version, "–"), cmp.Or(i.AdvertiseURL, "–"))
		}
	})
}

type dlqCmd struct {
	List   dlqListCmd   `cmd:"" help:"List the dead letters of all schedulers."`
	Show   dlqShowCmd   `cmd:"" help:"Show one, with what it says, which may be what somebody said."`
	Replay dlqReplayCmd `cmd:"" help:"Try some, or all, once more, at the scheduler that is asked."`
	Purge  dlqPurgeCmd  `cmd:"" help:"Drop some, or all."`
}

type dlqListCmd struct {
	remote
	Limit int `help:"At most this many, up to 1000." default:"100"`
}

// Run lists dead letters.
func (c *dlqListCmd) Run(ctx context.Context, io streams) error {
	var list wire.DeadLetterList
	if err := c.ask(ctx, "GET", "/v1/dlq?limit="+strconv.Itoa(c.Limit), nil, &list); err != nil {
		return err
	}
	return c.print(io.out, list, func(t *tabwriter.Writer) {
		if len(list.DeadLetters) == 0 {
			fmt.Fprintln(t, "there are no dead letters")
			return
		}
		fmt.Fprintln(t, "LETTER\tKIND\tFROM\tREASON\tTRIES\tAGE\tBYTES")
		for _, d := range list.DeadLetters {
			age := (time.Duration(d.AgeMS) * time.Millisecond).Round(time.Second)
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s\t%d\n", quoted(d.ID), cmp.Or(quoted(d.Kind), "–"), cmp.Or(quoted(d.From), "–"),
				d.Reason, d.Deliveries, age, d.Bytes)
		}
		if more := list.Total - len(list.DeadLetters); more > 0 {
			fmt.Fprintf(t, "and %d more; --limit shows up to 1000\n", more)
		}
	})
}

type dlqShowCmd struct {
	remote
	ID string `arg:"" help:"As lingua dlq list names it."`
}

// Run shows one dead letter.
func (c *dlqShowCmd) Run(ctx context.Context, io streams) error {
	var list wire.DeadLetterList
	if err := c.ask(ctx, "GET", "/v1/dlq?id="+url.QueryEscape(c.ID), nil, &list); err != nil {
		return err
	}
	return c.print(io.out, list, func(t *tabwriter.Writer) {
		for _, d := range list.DeadLetters {
			tries := "tries"
			if d.Deliveries == 1 {
				tries = "try"
			}
			fmt.Fprintf(t, "letter\t%s\nkind\t%s\nfrom\t%s\nreason\t%s, after %d %s\nage\t%s\n\n", quoted(d.ID), cmp.Or(quoted(d.Kind), "–"),
				cmp.Or(quoted(d.From), "–"), d.Reason, d.Deliveries, tries, (time.Duration(d.AgeMS) * time.Millisecond).Round(time.Second))
			text, err := json.MarshalIndent(d.Body, "", "  ")
			if err != nil || len(d.Body) == 0 {
				text = []byte(d.Text)
			}
			for line := range strings.Lines(string(text)) {
				fmt.Fprintln(t, quoted(strings.TrimSuffix(line, "\n")))
			}
		}
	})
}

// letters says which dead letters are meant.
type letters struct {
	remote
	IDs []string `arg:"" optional:"" name:"id" help:"As lingua dlq list names them."`
	All bool     `help:"All there are, up to 1000."`
}

// Validate checks that it is said which.
func (c *letters) Validate() error {
	switch {
	case c.All && len(c.IDs) > 0:
		return errors.New("name some dead letters, or say --all, not both")
	case !c.All && len(c.IDs) == 0:
		return errors.New("name some dead letters, or say --all")
	}
	return nil
}

// tell has something done with them; done is what is said of each with which that went well.
func (c *letters) tell(ctx context.Context, io streams, what, done string) error {
	var out wire.DeadLettersResponse
	if err := c.ask(ctx, "POST", "/v1/dlq/"+what, wire.DeadLettersRequest{IDs: c.IDs, All: c.All}, &out); err != nil {
		return err
	}
	err := c.print(io.out, out, func(t *tabwriter.Writer) {
		for _, id := range out.Done {
			fmt.Fprintf(t, "%s\t%s\n", quoted(id), done)
		}
		for _, id := range slices.Sorted(maps.Keys(out.Failed)) {
			fmt.Fprintf(t, "%s\t%s\n", quoted(id), quoted(out.Failed[id]))
		}
		if len(out.Done)+len(out.Failed) == 0 {
			fmt.Fprintln(t, "there are no dead letters")
		}
	})
	if err == nil && len(out.Failed) > 0 {
		err = fmt.Errorf("%d of %d could not be done", len(out.Failed), len(out.Failed)+len(out.Done))
	}
	return err
}

type dlqReplayCmd struct{ letters }

// Run tries dead letters once more.
func (c *dlqReplayCmd) Run(ctx context.Context, io streams) error {
	return c.tell(ctx, io, "replay", "put into the inbox of the scheduler that was asked")
}

type dlqPurgeCmd struct{ letters }

// Run drops dead letters.
func (c *dlqPurgeCmd) Run(ctx context.Context, io streams) error {
	return c.tell(ctx, io, "purge", "dropped")
}
