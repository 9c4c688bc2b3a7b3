package config

import "fmt"

// unusedKeys are keys of earlier designs of this scheduler that a file or the environment may still set, with why they have no
// effect. Setting one is a warning, not an error.
var unusedKeys = map[string]string{
	phase2Key + ".owner_ttl_seconds": "the owner of a node or of a session is stored with it, and has no lifetime of its own",
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
	return fmt.Sprintf("%s: %d counts as %d, the maximum: the jobs of an instance that died wait until this time is over; the default is %d",
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

// sourceOf returns the name of a key in the source that set it.
func (u *Unvalidated) sourceOf(key string) string {
	if name, ok := u.source[key]; ok {
		return name
	}
	return key
}
