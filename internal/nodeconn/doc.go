// Package nodeconn is the connections of nodes: their protocol over the WebSocket, the delivery of jobs to them, and the delivery
// to nodes that are connected to other instances or have an HTTP callback. It implements dispatch.Transport.
package nodeconn
