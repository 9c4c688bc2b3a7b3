package server

import (
	"reflect"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/wire"
)

// AdmitConnection does what follows the upgrade of a caller that was authenticated.
func (s *Server) AdmitConnection(c *socket.Conn, caller *auth.Principal) {
	s.enforcer.admit(c, caller)
}

// Routes lists every route as "METHOD path".
func (s *Server) Routes() []string {
	var routes []string
	for _, r := range s.routes() {
		routes = append(routes, r.method+" "+r.path)
	}
	return routes
}

// DeadLetterDetail is the detail of the answer to an error with a dead letter.
func (s *Server) DeadLetterDetail(err error) string {
	return s.operator.errDeadLetter("i/1-1", err).Detail
}

// RecordRefused records that a node was refused.
func (s *Server) RecordRefused(remote, node string, e *wire.Error) { s.refused.record(remote, node, e) }

// DescribeSockets makes the AsyncAPI description for a version.
func DescribeSockets(version string) ([]byte, error) { return describeSockets(version) }

// RouteTypes returns the types of the bodies of requests and of answers, by "METHOD path"; nil where there is none.
func (s *Server) RouteTypes() (requests, answers map[string]reflect.Type) {
	requests, answers = make(map[string]reflect.Type), make(map[string]reflect.Type)
	for _, r := range s.routes() {
		requests[r.method+" "+r.path], answers[r.method+" "+r.path] = r.handler.in, r.handler.out
	}
	return requests, answers
}

// Actions returns the action of every route, by "METHOD path".
func (s *Server) Actions() map[string]string {
	actions := make(map[string]string)
	for _, r := range s.routes() {
		actions[r.method+" "+r.path] = r.action
	}
	return actions
}

// WriteBody writes the body of an answer.
var WriteBody = writeBody
