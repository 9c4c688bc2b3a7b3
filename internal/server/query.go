package server

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/lingua-scheduler/lingua/internal/convert"
	"github.com/lingua-scheduler/lingua/wire"
)

// scopeHere is the value of the parameter scope of a list that does not ask other instances.
const scopeHere = "here"

// checkParams checks the parameters that have the same form in every route that has them: ids of the path, and scope.
func checkParams(route *route, r *http.Request) *wire.Error {
	for i := range route.params {
		switch p := &route.params[i]; {
		case p.isID:
			if e := convert.CheckID(p.name, r.PathValue(p.name)); e != nil {
				return e
			}
		case p.name == "scope":
			if scope := r.URL.Query().Get(p.name); scope != "" && scope != scopeHere {
				return wire.Invalid(p.name, "must be %s, or absent", scopeHere)
			}
		}
	}
	return nil
}

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
