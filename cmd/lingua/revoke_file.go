package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"text/tabwriter"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

type revokeExportCmd struct{ apiClient }

// Help says what the output is for.
func (*revokeExportCmd) Help() string {
	return `
A line for each revocation: the request that revokes the same again. Keep it beside the backups of the configuration, because
revocations are in Redis alone.

    lingua revoke export > revocations.jsonl
    lingua revoke import revocations.jsonl
`
}

// Run prints the requests that revoke again what is revoked now.
func (c *revokeExportCmd) Run(ctx context.Context, s streams) error {
	out := json.NewEncoder(s.out)
	logins := 0
	err := fetchPages(ctx, &c.apiClient, "/v1/auth/revocations", url.Values{}, maxEntries(0, true),
		func(page *wire.RevocationList) (int, string) {
			for i := range page.Revocations {
				request, ok := requestOf(&page.Revocations[i])
				if !ok {
					logins++
					continue
				}
				_ = out.Encode(request) // of plain fields; an error of the output is found by the flush of main
			}
			return len(page.Revocations), page.NextCursor
		})
	if logins > 0 {
		fmt.Fprintf(s.err, "lingua: %d ended logins are left out: they expire by themselves\n", logins)
	}
	return err
}

// requestOf returns the request that adds a revocation again, and false if it is that of a login, for which there is none.
func requestOf(r *wire.Revocation) (wire.RevocationRequest, bool) {
	out := wire.RevocationRequest{TenantID: r.TenantID, Reason: r.Reason}
	switch r.Kind {
	case "key":
		out.Key = r.Name
	case "kid":
		out.KID = r.Name
	case "tenant":
		out.Tenant = r.Name
	case "session":
		out.Session = r.Name
	case "node":
		out.Node = r.Name
	default:
		return out, false
	}
	if r.Kind != "node" && r.BeforeMS > 0 {
		out.Before = time.UnixMilli(r.BeforeMS).UTC().Format(time.RFC3339Nano)
	}
	return out, true
}

type revokeImportCmd struct {
	apiClient
	File string `arg:"" help:"The output of lingua revoke export; - for standard input."`
}

// Run revokes what a file names. What is revoked already stays so, so an import can be repeated.
func (c *revokeImportCmd) Run(ctx context.Context, s streams) error {
	in := s.in
	if c.File != "-" {
		file, err := os.Open(c.File)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		in = file
	}
	requests, err := readRevocations(in)
	if err != nil {
		return err
	}
	var refused []error
	for i := range requests {
		if err := c.request(ctx, "POST", "/v1/auth/revocations", requests[i], &wire.Revocation{}); err != nil {
			refused = append(refused, fmt.Errorf("line %d: %w", i+1, err))
		}
	}
	if len(refused) > 0 {
		const failed = "%d of %d were not revoked; import the file again when that is mended\n%w"
		return fmt.Errorf(failed, len(refused), len(requests), errors.Join(refused...))
	}
	return c.print(s.out, map[string]int{"imported": len(requests)}, func(t *tabwriter.Writer) {
		fmt.Fprintf(t, "%d revocations imported\n", len(requests))
	})
}

// readRevocations reads all lines of an export before any is used.
func readRevocations(in io.Reader) (requests []wire.RevocationRequest, _ error) {
	decoder := json.NewDecoder(in)
	decoder.DisallowUnknownFields()
	for decoder.More() {
		var request wire.RevocationRequest
		if err := decoder.Decode(&request); err != nil {
			return nil, fmt.Errorf("line %d is not one of lingua revoke export, and nothing was revoked: %w", len(requests)+1, err)
		}
		requests = append(requests, request)
	}
	return requests, nil
}
