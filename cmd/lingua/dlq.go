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

	"github.com/lingua-scheduler/lingua/wire"
)

type dlqCmd struct {
	List   dlqListCmd   `cmd:"" help:"List the dead letters of all instances."`
	Show   dlqShowCmd   `cmd:"" help:"Show one dead letter with its body, which may contain speech of a session as text."`
	Replay dlqReplayCmd `cmd:"" help:"Put some or all dead letters into the inbox of the queried instance, to be handled once more."`
	Purge  dlqPurgeCmd  `cmd:"" help:"Delete some or all dead letters."`
}

type dlqListCmd struct {
	apiClient
	Limit int `help:"Maximum number of dead letters, up to 1000." default:"100"`
}

// Run lists dead letters.
func (c *dlqListCmd) Run(ctx context.Context, io streams) error {
	path := "/v1/dlq?limit=" + strconv.Itoa(c.Limit)
	return show(ctx, &c.apiClient, io, "GET", path, nil, func(t *tabwriter.Writer, list *wire.DeadLetterList) {
		if len(list.DeadLetters) == 0 {
			fmt.Fprintln(t, "there are no dead letters")
			return
		}
		fmt.Fprintln(t, "ID\tKIND\tFROM\tREASON\tDELIVERIES\tAGE\tBYTES")
		for _, d := range list.DeadLetters {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s\t%d\n", printable(d.ID), cmp.Or(printable(d.Kind), "–"), cmp.Or(printable(d.From), "–"),
				d.Reason, d.Deliveries, secondsOf(d.AgeMS), d.Bytes)
		}
		if more := list.Total - len(list.DeadLetters); more > 0 {
			fmt.Fprintf(t, "and %d more; --limit shows up to 1000\n", more)
		}
	})
}

type dlqShowCmd struct {
	apiClient
	ID string `arg:"" help:"ID of a dead letter, as printed by lingua dlq list."`
}

// Run shows one dead letter.
func (c *dlqShowCmd) Run(ctx context.Context, io streams) error {
	path := "/v1/dlq?id=" + url.QueryEscape(c.ID)
	return show(ctx, &c.apiClient, io, "GET", path, nil, func(t *tabwriter.Writer, list *wire.DeadLetterList) {
		for i := range list.DeadLetters {
			writeDeadLetter(t, &list.DeadLetters[i])
		}
	})
}

func writeDeadLetter(t *tabwriter.Writer, d *wire.DeadLetter) {
	fmt.Fprintf(t, "id\t%s\nkind\t%s\nfrom\t%s\nreason\t%s\ndeliveries\t%d\nage\t%s\n\n", printable(d.ID), cmp.Or(printable(d.Kind), "–"),
		cmp.Or(printable(d.From), "–"), d.Reason, d.Deliveries, secondsOf(d.AgeMS))
	text, err := json.MarshalIndent(d.Body, "", "  ")
	if err != nil || len(d.Body) == 0 {
		text = []byte(d.Text)
	}
	for line := range strings.Lines(string(text)) {
		fmt.Fprintln(t, printable(strings.TrimSuffix(line, "\n")))
	}
}

// deadLetterSelection names dead letters: some by their ids, or all.
type deadLetterSelection struct {
	apiClient
	IDs []string `arg:"" optional:"" name:"id" help:"IDs of dead letters, as printed by lingua dlq list."`
	All bool     `help:"All dead letters, up to 1000."`
}

// Validate checks that the selection is either some or all.
func (s *deadLetterSelection) Validate() error {
	switch {
	case s.All && len(s.IDs) > 0:
		return errors.New("give the ids of dead letters, or --all, not both")
	case !s.All && len(s.IDs) == 0:
		return errors.New("give the ids of dead letters, or --all")
	}
	return nil
}

// apply requests an action on the selected dead letters and prints success beside each for which it succeeded.
func (s *deadLetterSelection) apply(ctx context.Context, io streams, action, success string) error {
	var out wire.DeadLettersResponse
	if err := s.request(ctx, "POST", "/v1/dlq/"+action, wire.DeadLettersRequest{IDs: s.IDs, All: s.All}, &out); err != nil {
		return err
	}
	err := s.print(io.out, out, func(t *tabwriter.Writer) {
		for _, id := range out.Done {
			fmt.Fprintf(t, "%s\t%s\n", printable(id), success)
		}
		for _, id := range slices.Sorted(maps.Keys(out.Failed)) {
			fmt.Fprintf(t, "%s\t%s\n", printable(id), printable(out.Failed[id]))
		}
		if len(out.Done)+len(out.Failed) == 0 {
			fmt.Fprintln(t, "there are no dead letters")
		}
	})
	if err == nil && len(out.Failed) > 0 {
		err = fmt.Errorf("%s failed for %d of %d dead letters", action, len(out.Failed), len(out.Failed)+len(out.Done))
	}
	return err
}

type dlqReplayCmd struct{ deadLetterSelection }

// Run puts dead letters into an inbox once more.
func (c *dlqReplayCmd) Run(ctx context.Context, io streams) error {
	return c.apply(ctx, io, "replay", "put into the inbox of the queried instance")
}

type dlqPurgeCmd struct{ deadLetterSelection }

// Run deletes dead letters.
func (c *dlqPurgeCmd) Run(ctx context.Context, io streams) error {
	return c.apply(ctx, io, "purge", "deleted")
}
