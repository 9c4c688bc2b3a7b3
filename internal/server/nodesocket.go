package server

import (
	"net/http"

	"github.com/lingua-scheduler/lingua/internal/socket"
)

// nodeSocket upgrades a request to the connection of a node, which goes on after the request has ended.
func (s *Server) nodeSocket(w http.ResponseWriter, r *http.Request) {
	token := socket.Token(r)
	grant, err := s.Keys.Node(token)
	if err != nil {
		s.turnAway(w, r, s.denied(token, "nodes: use a node's token"))
		return
	}
	conn, err := s.Hub.Accept(w, r)
	if err != nil {
		return // Accept has answered
	}
	s.NodeServer.Serve(conn, grant)
}
