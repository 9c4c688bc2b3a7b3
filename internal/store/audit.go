package store

import (
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// AuditOutcome is how an audited request ended. The names are stable: they are in responses and in the audit file.
type AuditOutcome string

// The outcomes.
const (
	AuditOK     AuditOutcome = "ok"
	AuditDenied AuditOutcome = "denied" // the caller may not do this, or not that often
	AuditFailed AuditOutcome = "failed" // the caller may do this, and it was not possible
)

// AuditOutcomes lists every outcome.
func AuditOutcomes() []AuditOutcome { return []AuditOutcome{AuditOK, AuditDenied, AuditFailed} }

// AuditEntry is one change of state by a person or a key, or one denial. It never has a secret, a token or text of speech: what a
// client sent is in it only if it is a valid identifier.
type AuditEntry struct {
	ID      string        `json:"-"` // its position in the log, which the store decides; opaque
	At      time.Time     `json:"time"`
	Key     string        `json:"key,omitempty"`    // the name of the caller's key; for a session, of the key that minted its token
	Role    string        `json:"role,omitempty"`   // of the caller; empty: it could not be authenticated
	Tenant  core.TenantID `json:"tenant,omitempty"` // of the caller; for a caller of all tenants, of the object
	Action  string        `json:"action"`           // such as node.drain; of a denial without one, the route
	Object  string        `json:"object,omitempty"` // such as node/gpu-1
	Outcome AuditOutcome  `json:"outcome"`
	Reason  string        `json:"reason,omitempty"` // why it was denied or failed
	Request string        `json:"request_id,omitempty"`
	Address string        `json:"address,omitempty"` // of the caller, without the port
	// Instance is the instance that recorded it.
	Instance core.InstanceID `json:"instance"`
	// Suppressed is how many denials of the same address were left out before this entry.
	Suppressed int `json:"suppressed,omitempty"`
}
