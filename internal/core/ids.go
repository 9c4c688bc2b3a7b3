package core

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// Typed identifiers. Made ones are prefixed, so that a log line explains itself.
type (
	// NodeID names a GPU node: given by the node, or made as node-<uuidv7>.
	NodeID string
	// JobID names a job: derived from tenant and request id, so that a repeated request finds its job.
	JobID string
	// SessionID names a conversation.
	SessionID string
	// TenantID names whose job or node it is; empty is the tenant of a scheduler without credentials.
	TenantID string
	// RequestID is the caller's idempotency key.
	RequestID string
	// InstanceID names one incarnation of one scheduler process.
	InstanceID string
	// Token names one reservation made by one dispatcher. It is part of a lease's name, so that
	// whoever loses a race can free its own lease and never the winner's.
	Token string
)

// Epoch counts the lives of a node: every registration that is not a resume begins a new one.
// It is the registration's store time in microseconds, or one more than the epoch before it.
type Epoch int64

// Revision counts the changes of what a node can do and for whom. A reservation names the revision its
// choice was made on.
type Revision int64

// Version counts every change of what a node declares, so that older news can be told from newer.
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

// JobIDFor derives the id of the job that a tenant's request makes.
func JobIDFor(tenant TenantID, request RequestID) JobID {
	return jobID(string(tenant), string(request))
}

// jobID hashes parts, each prefixed with its length: no two different lists can give the same bytes to hash.
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
