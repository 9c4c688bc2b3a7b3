package store

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// Tenants counts what each tenant uses, over all instances, and compares it with the tenant's limits in the same step. What a tenant uses
// at once, its jobs and its sessions, are members: each has a name and expires if nobody removes or renews it, so that an instance that
// dies takes nothing with it for good. What it uses in the course of time, its dispatches and its audio, are token buckets on the store's
// clock.
type Tenants interface {
	// AdmitMember adds a member, unless a limit forbids it, and takes the tokens of a job. It decides about all limits at once: a member
	// that one of them forbids changes nothing. A member that is there is admitted and takes nothing more, so that a call can be repeated;
	// it expires p.Keep from now, also if that is earlier than before, unless it is restored.
	AdmitMember(ctx context.Context, p MemberParams) (TenantVerdict, error)
	// RemoveMember removes a member. With Undo it also gives back the tokens that the member took. It does nothing if the member is not
	// there.
	RemoveMember(ctx context.Context, p MemberParams) error
	// RenewMembers postpones the expiry of members until p.Keep from now, if it is earlier, and returns those that are not there: they have
	// expired, or the store has lost them. It adds none, because a member may have been removed while the call was on its way.
	RenewMembers(ctx context.Context, p RenewParams) (missing []string, err error)
	// ReadTenants returns what tenants use, in their order.
	ReadTenants(ctx context.Context, tenants []core.TenantID) ([]TenantUse, error)
}

// MemberKind is what is counted of a tenant.
type MemberKind uint8

// The kinds of members.
const (
	TenantJob     MemberKind = iota + 1 // a job that has not ended
	TenantSession                       // a session that has not ended
)

// RestoredWithin is how long after the store has lost the members of a tenant those of present instances are restored: the instances look
// for lost members more often.
func (k MemberKind) RestoredWithin() time.Duration {
	if k == TenantSession {
		return 8 * time.Second
	}
	return 3 * time.Second
}

// MemberParams describes a member and the limits of its tenant.
type MemberParams struct {
	Tenant core.TenantID
	Kind   MemberKind
	Member string // no other member of the tenant and the kind has this name, then or later
	Keep   time.Duration
	Limits core.TenantLimits
	Audio  time.Duration // of the utterance; 0: it is not known
	// Restore adds the member whatever the limits are, and takes no tokens: it was admitted before, and the store has lost it.
	Restore bool
	// Undo says that the job of a member that is removed never began.
	Undo bool
}

// MaxMembers returns how many members of the kind the tenant may have; 0: any number.
func (p *MemberParams) MaxMembers() int {
	if p.Kind == TenantSession {
		return p.Limits.Sessions
	}
	return p.Limits.InFlight
}

// Costs returns what a job takes from the bucket of dispatches and from that of audio. 0: nothing, or there is no such limit.
func (p *MemberParams) Costs() (dispatch, audio time.Duration) {
	if p.Kind != TenantJob || p.Restore {
		return 0, 0
	}
	return DispatchCost(p.Limits.DispatchRate), AudioCost(p.Limits.AudioRate, p.Audio)
}

// Buckets are counted in time: a bucket that is full now has a debt of 0, taking tokens adds the time after which the bucket has refilled
// them, and the debt shrinks as time passes. One number holds the whole state, and no rate is part of it: a rate that changes is in force
// with the next token.

// AudioBurst is the maximum debt of the bucket of audio with which another utterance is admitted: that of a minute's audio. An utterance
// may exceed it, and the next one waits.
const AudioBurst = time.Minute

// DispatchCost returns the debt that a job adds to the bucket of dispatches; 0: there is no limit.
func DispatchCost(perSecond float64) time.Duration {
	if perSecond <= 0 {
		return 0
	}
	return time.Duration(float64(time.Second) / perSecond)
}

// DispatchBurst returns the maximum debt of the bucket of dispatches: that of the jobs of one second, and of one job at least.
func DispatchBurst(perSecond float64) time.Duration {
	return max(time.Second, DispatchCost(perSecond))
}

// AudioCost returns the debt that audio adds to its bucket; 0: there is no limit.
func AudioCost(perMinute float64, audio time.Duration) time.Duration {
	if perMinute <= 0 {
		return 0
	}
	return time.Duration(float64(audio) * time.Minute.Seconds() / perMinute)
}

// TenantLimit is one of the limits of a tenant.
type TenantLimit uint8

// The limits. NoLimit means that none forbids a member.
const (
	NoLimit TenantLimit = iota
	LimitInFlight
	LimitSessions
	LimitDispatchRate
	LimitAudioRate
)

var tenantLimitNames = [...]string{
	LimitInFlight: "max_in_flight", LimitSessions: "max_sessions", LimitDispatchRate: "dispatch_per_second",
	LimitAudioRate: "audio_seconds_per_minute",
}

// String returns the name of the limit in the configuration.
func (l TenantLimit) String() string {
	if int(l) < len(tenantLimitNames) {
		return tenantLimitNames[l]
	}
	return ""
}

// IsRate reports whether the limit is a rate, which admits a member after some time, and not a number of members.
func (l TenantLimit) IsRate() bool { return l == LimitDispatchRate || l == LimitAudioRate }

// TenantLimits lists every limit.
func TenantLimits() []TenantLimit {
	return []TenantLimit{LimitInFlight, LimitSessions, LimitDispatchRate, LimitAudioRate}
}

// TenantVerdict says whether a member was admitted.
type TenantVerdict struct {
	Refused TenantLimit // the limit that forbids it; NoLimit: it was admitted
	Used    int         // members of the kind, with this one if it was admitted
	// RetryIn is after which time the rate that forbids it would admit it. For the other limits it is 0, unless the store has lost the
	// members: it admits none until all could be restored, because it does not know how many there are.
	RetryIn time.Duration
}

// RenewParams names members of one tenant.
type RenewParams struct {
	Tenant  core.TenantID
	Kind    MemberKind
	Members []string
	Keep    time.Duration
}

// TenantUse is what a tenant uses.
type TenantUse struct {
	InFlight int // jobs that are counted
	Sessions int // sessions that are counted
	// DispatchDebt and AudioDebt are after how long the buckets are full.
	DispatchDebt, AudioDebt time.Duration
}

// DispatchesLeft returns how many jobs may begin now by the rate of dispatches.
func (u *TenantUse) DispatchesLeft(perSecond float64) float64 {
	return max(0, float64(DispatchBurst(perSecond)-u.DispatchDebt)/float64(DispatchCost(perSecond)))
}

// AudioLeft returns how much audio is left in the bucket by the rate of audio. It is negative while utterances are refused.
func (u *TenantUse) AudioLeft(perMinute float64) time.Duration {
	return time.Duration(float64(AudioBurst-u.AudioDebt) * perMinute / time.Minute.Seconds())
}
