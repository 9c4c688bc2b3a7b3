package server

import (
	"net/http"

	"github.com/lingua-scheduler/lingua/wire"
)

// route is one endpoint: its method and path, its request and answer, and its handler. The same table mounts the handlers and
// describes them in /openapi.yaml, so that the two cannot differ. Each handler group has the routes of its own.
type route struct {
	method, path string
	tag          string
	summary      string
	description  string
	handler      handler
	media        string // of the answer, when it is not JSON
	params       []param
	codes        []wire.Code // the errors of this route, beside those of every route
	alsoStatus   int         // a further status with the same body
	upgrade      bool        // the answer switches protocols
	optionalBody bool        // the request may have no body
	stream       bool        // the answer lasts as long as its client wants: it is not slow
	asksCaller   bool        // it asks who the caller is: a request without a credential is no denial to be recorded
	rule         rule
	// action names the change of state in audit entries, such as node.drain. A route without one changes nothing, or is part of the
	// data plane, which is not audited.
	action string
	// registers says that nodes are registered by it: who is refused is listed.
	registers bool
	// peers says that another instance may send the request on behalf of its caller. It must change nothing.
	peers bool
	// page says that it is a file for browsers, which the description of the API leaves out.
	page bool
	// programs says that programs ask for it as often as they work, such as for the result of a job: it costs the same however much there
	// is.
	programs bool
}

// forPeople reports whether the route is a read that people ask for, which is limited so that it does not slow dispatch down.
func (r *route) forPeople() bool {
	return r.method == http.MethodGet && !r.rule.public && !r.stream && !r.upgrade && !r.programs
}

type param struct {
	name, description string
	kind              string // string or integer
	inPath            bool
	isID              bool // its value is checked
}

func idParam(description string) param {
	return param{name: "id", description: description, kind: "string", inPath: true, isID: true}
}

// listParams are the filters of a list, and the parameters of its pages.
func listParams(defaultLimit string, filters ...param) []param {
	return append(filters,
		param{name: "limit", description: "The maximum number of entries, " + defaultLimit + " by default, at most 1000.", kind: "integer"},
		param{name: "cursor", description: "The next_cursor of the page before. The filters must be the same.", kind: "string"},
	)
}

// routes are all routes of the server.
func (s *Server) routes() []route {
	var all []route
	for _, group := range []interface{ routes() []route }{
		s.nodes, s.jobs, s.sessions, s.credentials, s.operator, s.events, s.stats, s.status, s.sockets, s.docs,
	} {
		all = append(all, group.routes()...)
	}
	return all
}
