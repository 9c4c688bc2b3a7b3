package store

import (
	"context"
	"time"
)

// Inspection describes the servers of a shared store, for people who operate it. It has no credentials.
type Inspection struct {
	Mode    string // standalone, sentinel or cluster
	Servers []Server
}

// Server is one server of a shared store.
type Server struct {
	Address   string
	Primary   bool   // it takes writes; otherwise it is a replica
	Slots     string // of a cluster, such as 0-5460; empty: it has none
	Healthy   bool   // it answers, or, if only its primary was asked about it, it is connected to that
	Version   string
	Policy    string // what it does when its memory is full
	Used, Max int64  // memory in bytes; Max is 0 if it has no limit
	Lag       int64  // how many bytes a replica is behind its primary; -1: it is not known
	Ping      time.Duration
	Uptime    time.Duration
	Clients   int
}

// Inspector describes the servers of a shared store.
type Inspector interface {
	// Inspect asks every server. One that does not answer is listed as not healthy.
	Inspect(ctx context.Context) Inspection
}
