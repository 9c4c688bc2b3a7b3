package server

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/lingua-scheduler/lingua/wire"
)

// checkQuery refuses a query that cannot be parsed, of which the handler would see only a part, and parameters that a route for operators
// which changes something does not have: a misspelt or misplaced dry_run must not change anything.
func checkQuery(route *route, r *http.Request) *wire.Error {
	if r.URL.RawQuery == "" {
		return nil
	}
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return wire.Invalid("query", "the part of the URL after ? is not well-formed")
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead || !slices.Equal(route.rule.roles, operators.roles) {
		return nil
	}
	for name := range q {
		if !slices.ContainsFunc(route.params, func(p param) bool { return p.name == name }) {
			return wire.Invalid(wire.Quote(name), "%s %s has no such parameter", route.method, route.path)
		}
	}
	return nil
}
