// Package compat reads what nodes and clients of the scheduler before this one send, as its design documents describe it: the same messages
// with other names, or with values in another form. Each type here is the message of package wire and what may stand in its place; its
// method Translate makes it one. Nothing but packages server and nodeconn knows these names. docs/migration.md lists them.
package compat
