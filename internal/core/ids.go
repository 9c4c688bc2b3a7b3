package core

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// Typed identifiers. Generated ones have a prefix, so that a log line explains itself.
type (
	// NodeID identifies a GPU node: chosen by the node, or generated as node-<uuidv7>.
	NodeID string
	// JobID identifies a job: derived from tenant and request id, so that a repeated request finds its job.
	JobID string
	// SessionID is the name of a session within its tenant.
	SessionID string
	// TenantID identifies the tenant of a job or node; empty is the tenant of a scheduler without credentials.
	TenantID string
	// RequestID is the idempotency key of a request.
	RequestID string
	// InstanceID identifies one incarnation of one scheduler instance.
	InstanceID string
	// Token identifies one reservation of one dispatcher. It is part of the name of a lease, so that the loser of a race
	// can release its own lease and never that of the winner.
	Token string
)

// Epoch is the number of a registration of a node. Every registration that is not a resume starts a new epoch: the time
// of the store in microseconds, or one more than the epoch before.
type Epoch int64

// Revision counts the changes of what a node serves and for whom. A reservation names the revision on which the node was
// selected.
type Revision int64

// Version counts every change of the declaration of a node, so that an older record is recognised.
type Version int64

// MaxIDLen bounds every identifier that comes from outside.
const MaxIDLen = 128

// ValidID reports whether s may be used as an identifier: 1 to 128 of
// A-Z a-z 0-9 and the characters dot, underscore, colon and hyphen.
func ValidID(s string) bool {
	if len(s) == 0 || len(s) > MaxIDLen {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '.', c == '_', c == ':', c == '-':
		default:
			return false
		}
	}
	return true
}

// JobIDFor derives the id of the job of a request of a tenant.
func JobIDFor(tenant TenantID, request RequestID) JobID {
	return jobID(string(tenant), string(request))
}

// jobID hashes parts, each prefixed with its length: two different lists never give the same bytes to hash.
func jobID(parts ...string) JobID {
	buf := make([]byte, 0, 64)
	for _, p := range parts {
		buf = append(binary.BigEndian.AppendUint32(buf, uint32(len(p))), p...)
	}
	sum := sha256.Sum256(buf)

	id := make([]byte, 0, 4+32)
	id = append(id, "job-"...)
	return JobID(hex.AppendEncode(id, sum[:16]))
}
