package core

// TenantLimits are the weight of a tenant and its limits over all instances. A limit of 0 is none.
type TenantLimits struct {
	Weight   float64 // its share of the slots for which tenants wait, relative to those of the others
	InFlight int     // jobs that have not ended
	Sessions int     // sessions that have not ended
	// DispatchRate is how many jobs may begin each second. The jobs of one second may begin at once, and one always may.
	DispatchRate float64
	// AudioRate is how many seconds of audio its utterances may have each minute. The audio of one minute may come at once.
	AudioRate float64
}

// LimitsJobs reports whether there is a limit of jobs.
func (l *TenantLimits) LimitsJobs() bool {
	return l.InFlight > 0 || l.DispatchRate > 0 || l.AudioRate > 0
}
