// Package wire defines the protocol of the Lingua Scheduler as nodes and clients see it: HTTP bodies, WebSocket frames,
// error codes and close codes.
//
// Programs in Go rarely use it alone: package node runs a node, package client a session, and both use these types. A
// text frame is written with EncodeFrame and read with TypeOf and Decode, a binary frame with AppendBinary and ReadBinary.
package wire
