// Package wire is the language of the scheduler: every HTTP body and every error code, as nodes and clients
// see them. It is public and depends on nothing inside; whoever writes a node or a client in Go can use the
// same types.
package wire
