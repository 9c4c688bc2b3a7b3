package server

import (
	"net/http"

	"github.com/lingua-scheduler/lingua/internal/nodeconn"
	"github.com/lingua-scheduler/lingua/internal/socket"
)

// socketHandlers upgrade requests to the WebSockets of nodes and sessions, which outlive the requests.
type socketHandlers struct {
	hub      *socket.Hub
	audit    *auditor
	nodes    *nodeconn.Server
	enforcer *enforcer
	sessions *sessionServer
}

func (h *socketHandlers) routes() []route {
	return []route{
		{
			method: "GET", path: "/ws/node", rule: nodesOnly, registers: true, tag: "sockets",
			summary:     "Connect a node (WebSocket, subprotocol lingua.v1)",
			description: "Described in api/asyncapi.yaml and docs/sockets.md.",
			handler:     handler{serve: h.connectNode}, media: "application/octet-stream", upgrade: true,
		},
		{
			method: "GET", path: "/ws/session", rule: sessionsOnly, tag: "sockets",
			summary:     "Start or resume a session (WebSocket, subprotocol lingua.v1)",
			description: "Described in api/asyncapi.yaml and docs/sockets.md.",
			handler:     handler{serve: h.connectSession}, media: "application/octet-stream", upgrade: true,
		},
	}
}

// connectNode upgrades a request to the connection of a node.
func (h *socketHandlers) connectNode(w http.ResponseWriter, r *http.Request) {
	conn, err := h.hub.Accept(w, r)
	if err != nil {
		callOf(r.Context()).refusedSocket(err)
		return // Accept has answered
	}
	h.enforcer.admit(conn, principalOf(r.Context()))
	h.nodes.Serve(conn, principalOf(r.Context()), h.audit.of(callOf(r.Context()), r).record)
}

// connectSession upgrades a request to the connection of a session.
func (h *socketHandlers) connectSession(w http.ResponseWriter, r *http.Request) {
	c := &sessionConn{caller: principalOf(r.Context()), audit: h.audit.of(callOf(r.Context()), r)}
	var err error
	if c.ws, err = h.hub.Accept(w, r); err != nil {
		callOf(r.Context()).refusedSocket(err)
		return // Accept has answered
	}
	c.ws.OnPong(c.handlePong)
	h.enforcer.admit(c.ws, c.caller)
	h.sessions.serveInBackground(c)
}

// close waits for everything that runs for connections, which must be closed before.
func (h *socketHandlers) close() {
	h.sessions.close()
	h.nodes.Close()
}
