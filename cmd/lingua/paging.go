package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"text/tabwriter"
)

// pageSize is the maximum number of entries that the API returns in one page.
const pageSize = 1000

func checkLimit(limit int) error {
	if limit < 1 {
		return fmt.Errorf("--limit: must be 1 or more, not %d; --all lists all", limit)
	}
	return nil
}

// maxEntries returns how many entries to list by the flags --limit and --all.
func maxEntries(limit int, all bool) int {
	if all {
		return math.MaxInt
	}
	return limit
}

// makeQuery makes a query of names and values. Empty values are left out.
func makeQuery(pairs ...string) url.Values {
	q := make(url.Values)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return q
}

// fetchPages requests the pages of a list until the end, or until it has limit entries. It calls add with each page; add
// returns the number of entries in the page and the cursor of the next.
func fetchPages[T any](ctx context.Context, c *apiClient, path string, q url.Values, limit int, add func(*T) (int, string)) error {
	for limit > 0 {
		q.Set("limit", strconv.Itoa(min(limit, pageSize)))
		page := new(T)
		if err := c.request(ctx, "GET", path+"?"+q.Encode(), nil, page); err != nil {
			return err
		}
		n, next := add(page)
		if next == "" {
			return nil
		}
		if n == 0 || next == q.Get("cursor") {
			return errors.New("the scheduler returned the same page twice")
		}
		limit -= n
		q.Set("cursor", next)
	}
	return nil
}

// writeMoreHint writes below a table that the list has further entries.
func writeMoreHint(t *tabwriter.Writer, nextCursor string) {
	if nextCursor != "" {
		fmt.Fprintln(t, "(there are more: --all, or a larger --limit)")
	}
}
