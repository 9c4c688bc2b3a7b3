package redisstore

import (
	"strconv"
	"strings"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// member names a lease in its node's set. No part of it can contain the bar.
func member(ref core.LeaseRef) string {
	b := append(make([]byte, 0, 96), ref.Job...)
	b = strconv.AppendInt(append(b, '|'), int64(ref.Attempt), 10)
	return string(append(append(b, '|'), ref.Token...))
}

// listed names a job as a node lists it.
func listed(job core.JobID, attempt int) string { return string(job) + "|" + strconv.Itoa(attempt) }

func parseMember(node core.NodeID, name string) core.LeaseRef {
	job, rest, _ := strings.Cut(name, "|")
	number, token, _ := strings.Cut(rest, "|")
	attempt, _ := strconv.Atoi(number)
	return core.LeaseRef{Node: node, Job: core.JobID(job), Attempt: attempt, Token: core.Token(token)}
}

// How a score holds a lease; scripts/lib.lua says why.
const (
	tick   = 100 // milliseconds
	epoch  = 1704067200000
	ages   = 65536
	codes  = 16
	states = 4
)

// statesByCode are the states as scores number them.
var statesByCode = [states]core.LeaseState{core.LeaseReserved, core.LeaseRunning, core.LeaseRevoked, core.LeaseParked}

// lease reads a member and its score.
func (s *Store) lease(node core.NodeID, name, score string, now int64) core.Lease {
	value, _ := strconv.ParseFloat(score, 64) // whole numbers below 2^53, which Redis may write with an exponent
	whole := int64(value)
	rest := whole / codes
	since := rest/ages - rest%ages
	l := core.Lease{LeaseRef: parseMember(node, name), State: statesByCode[whole%codes%states]}
	age := ((now-epoch)/tick - since) * tick
	l.Young = l.State == core.LeaseReserved && age < s.timing.ReservedTTL.Milliseconds()
	return l
}

// leases reads members and their scores in turn.
func (s *Store) leases(node core.NodeID, flat []string, now int64) []core.Lease {
	var list []core.Lease
	for i := 0; i+1 < len(flat); i += 2 {
		list = append(list, s.lease(node, flat[i], flat[i+1], now))
	}
	return list
}

// occupancy reads how full a node is.
func occupancy(r reply) store.Occupancy {
	return store.Occupancy{
		Max: int(r.int(0)), Reserved: int(r.int(1)), Running: int(r.int(2)), Foreign: int(r.int(3)),
		Closed: r.int(4) == 1, Held: r.int(5) == 1,
	}
}
