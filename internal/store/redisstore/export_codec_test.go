package redisstore

import (
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// RecordRoundTrip encodes a record, and decodes it.
func RecordRoundTrip(j *core.Job) (*core.Job, error) {
	body, err := appendBody([]byte(headOf(j)), j)
	if err != nil {
		return nil, err
	}
	return decodeRecord(j.ID, string(body))
}

// DigestRoundTrip encodes a digest, and decodes it.
func DigestRoundTrip(d *store.NodeDigest) store.NodeDigest {
	return decodeDigest(d.LastSeen, encodeDigest(d))
}

// MemberRoundTrip encodes a lease as the member of a set, and decodes it.
func MemberRoundTrip(l core.LeaseRef) core.LeaseRef { return parseMember(l.Node, member(l)) }
