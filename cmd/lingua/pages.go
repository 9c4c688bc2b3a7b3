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

// pageSize is how many entries a scheduler lists at once.
const pageSize = 1000

func checkLimit(limit int) error {
	if limit < 1 {
		return fmt.Errorf("--limit: must be 1 or more, not %d; --all lists all", limit)
	}
	return nil
}

// howMany is how many entries are wanted.
func howMany(limit int, all bool) int {
	if all {
		return math.MaxInt
	}
	return limit
}

// query makes a query of names and values; those that are empty are left out.
func query(pairs ...string) url.Values {
	q := make(url.Values)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return q
}

// follow asks for page after page of a list, until there are no more or enough. Each is given to take, which says how many
// entries it had and where the list goes on.
func follow[T any](ctx context.Context, r *remote, path string, q url.Values, limit int, take func(*T) (int, string)) error {
	for limit > 0 {
		q.Set("limit", strconv.Itoa(min(limit, pageSize)))
		page := new(T)
		if err := r.ask(ctx, "GET", path+"?"+q.Encode(), nil, page); err != nil {
			return err
		}
		n, next := take(page)
		if next == "" {
			return nil
		}
		if n == 0 || next == q.Get("cursor") {
			return errors.New("the list does not go on, although there should be more of it")
		}
		limit -= n
		q.Set("cursor", next)
	}
	return nil
}

// writeMore says below a table that it is not the whole list.
func writeMore(t *tabwriter.Writer, next string) {
	if next != "" {
		fmt.Fprintln(t, "(there are more: --all, or a larger --limit)")
	}
}
