package config

import "fmt"

// unusedKeys are keys of the design documents and of earlier designs of this scheduler that a file or the environment may set, with why
// they have no effect. Setting one is a warning, not an error.
var unusedKeys = map[string]string{
	"scheduler.dispatch.health_filter": "only ready nodes get jobs, whatever it is",
	phase2Key + ".owner_ttl_seconds":   "the owner of a node or of a session is stored with it, and has no lifetime of its own",
}

// maxHeartbeatTTL is the highest effective heartbeat_ttl_seconds: the jobs of an instance that died wait this long.
const maxHeartbeatTTL Seconds = 60

// limitHeartbeatTTL lowers a heartbeat_ttl_seconds above the maximum, and returns a warning if it did.
func (u *Unvalidated) limitHeartbeatTTL() string {
	const key = phase2Key + ".heartbeat_ttl_seconds"
	ttl := &u.Config.Scheduler.Phase2.HeartbeatTTLSeconds
	if *ttl <= maxHeartbeatTTL {
		return ""
	}
	given := *ttl
	*ttl = maxHeartbeatTTL
	return fmt.Sprintf("%s: %d counts as %d, the maximum: the jobs of an instance that died wait until this time is over; the default "+
		"is %d",
		u.sourceOf(key), given, maxHeartbeatTTL, Default().Scheduler.Phase2.HeartbeatTTLSeconds)
}

// warnUnused records a warning if a key is one that has no effect, and reports whether it is.
func (u *Unvalidated) warnUnused(key, name string) bool {
	why, unused := unusedKeys[key]
	if unused {
		u.warnings = append(u.warnings, name+": has no effect: "+why)
	}
	return unused
}

// The lifetime of a reservation, and the name and unit that it has in the design documents.
const (
	reservedTTLKey    = "scheduler.task_binding.reserved_ttl_seconds"
	reservationTTLKey = "scheduler.dispatch.reservation_ttl_ms"
)

// readReservationTTL reads a key if it is reservationTTLKey, and reports whether it is.
func (u *Unvalidated) readReservationTTL(file, key string, value any) bool {
	if key != reservationTTLKey {
		return false
	}
	u.source[key], u.fromFile[key] = file+": "+key, true
	ms, ok := value.(int64)
	switch {
	case !ok:
		u.rejectValue(key, describeValue(key, value)+" is not a whole number of milliseconds")
		return true
	case u.fromFile[reservedTTLKey]:
		u.warnings = append(u.warnings, fmt.Sprintf("%s: has no effect beside %s", u.source[key], reservedTTLKey))
		return true
	}
	seconds := (ms + 999) / 1000
	u.Config.Scheduler.TaskBinding.ReservedTTLSeconds = Seconds(seconds)
	u.source[reservedTTLKey], u.fromFile[reservedTTLKey] = u.source[key], true
	u.warnings = append(u.warnings, fmt.Sprintf("%s: %d counts as %s = %d", u.source[key], ms, reservedTTLKey, seconds))
	return true
}

// sourceOf returns the name of a key in the source that set it.
func (u *Unvalidated) sourceOf(key string) string {
	if name, ok := u.source[key]; ok {
		return name
	}
	return key
}
