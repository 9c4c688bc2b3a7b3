package server

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/lingua-scheduler/lingua/wire"
)

// maxPage is how many entries a page of a list holds at most.
const maxPage = 1000

// listQuery is what a list was asked for: filters, and which page of it.
type listQuery struct {
	url.Values
	limit int
	after []string // what stood last on the page before; nil: it is the first
}

// readList reads the query of a list. A filter that is misspelt must not list everything. A cursor is good for the list that
// made it, and says what stood last, so that whatever comes and goes meanwhile, nothing is listed twice or left out.
func readList(q url.Values, list string, fields, usual int, filters ...string) (listQuery, *wire.Error) {
	filters = append(filters, "limit", "cursor")
	for name := range q {
		if !slices.Contains(filters, name) {
			return listQuery{}, wire.Invalid("query", "there are no other filters than "+strings.Join(filters, ", "))
		}
	}
	p := listQuery{Values: q, limit: usual}
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxPage {
			return p, wire.Invalid("limit", "must be a number between 1 and %d", maxPage)
		}
		p.limit = n
	}
	if text := q.Get("cursor"); text != "" {
		plain, err := base64.RawURLEncoding.DecodeString(text)
		parts := strings.Split(string(plain), cursorSeparator)
		if err != nil || len(parts) != fields+1 || parts[0] != list {
			return p, wire.Invalid("cursor", "must be next_cursor of an answer of the same list")
		}
		p.after = parts[1:]
	}
	return p, nil
}

const cursorSeparator = "\x00"

// cursor names what stands last on a page of a list.
func cursor(list string, last ...string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strings.Join(append([]string{list}, last...), cursorSeparator)))
}

// pageParams describe the pages of a list.
func pageParams(usual string) []param {
	return []param{
		{name: "limit", about: "At most this many, " + usual + " unless given, 1000 at most.", kind: "integer"},
		{name: "cursor", about: "Go on after the page whose next_cursor this is. The filters must be the same.", kind: "string"},
	}
}
