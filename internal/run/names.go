package run

// LockName is the name of a lock: a type without fields whose method returns the value of the label lock in metrics. The names are declared
// here, and docs/locks.md lists them, so that the label is bounded.
type LockName interface{ LockName() string }

// LockNames returns the names of all locks.
func LockNames() []string {
	names := make([]string, 0, len(all))
	for _, n := range all {
		names = append(names, n.LockName())
	}
	return names
}

var all = []LockName{
	MemstoreNode{}, MemstoreNodes{}, MemstoreJobs{}, MemstoreWatchers{}, MemstoreWatcher{},
	MemstoreSessions{}, MemstoreBoard{}, MemstoreInstances{}, MemstoreLogs{}, MemstoreRevocations{},
	MemstoreStats{}, MemstoreLastNodes{}, MemstoreSettings{}, MemstoreWaiting{}, MemstoreTenants{}, FleetDividing{}, FleetBuilding{},
	FleetWriters{}, FleetSilent{},
	GuardCatalog{}, GuardReactions{}, GuardRates{}, GuardCounter{}, GuardObservations{}, DispatchDeadline{},
	DispatchJob{}, DispatchCount{}, DispatchShard{}, DispatchWaiting{}, DispatchOpen{}, DispatchOffers{}, DispatchOutstanding{},
	DispatchSends{}, DispatchTender{}, DispatchSnapshot{}, DispatchShares{}, DispatchProber{},
	DispatchBatch{}, DispatchCalls{}, DispatchTasks{}, DispatchTenants{}, DispatchHeld{}, RedisPermits{}, RedisAbandoned{},
	RedisHealth{}, RedisReleases{}, RedisClosing{}, RedisLastSeen{}, RedisRecentJobs{}, RedisMembers{},
	Session{}, SessionDirectory{}, AudioBuffer{}, SessionSpeech{}, SocketHub{},
	SocketConn{}, NodeConnNode{}, NodeConns{}, NodeConn{}, BusRecent{},
	BusCounters{}, BusTakeovers{}, NodesRegistering{}, ServerAddresses{}, ServerTokenExpiry{}, ServerLogins{}, ServerLive{},
	ServerStreams{}, ServerReads{}, ServerRefused{},
	ConvertLanguages{}, TenantsRefusals{}, JobringJobs{}, JobringDecisions{}, GuardSeries{},
}

// MemstoreNode names a lock of docs/locks.md.
type MemstoreNode struct{}

// LockName implements Name.
func (MemstoreNode) LockName() string { return "memstore_node" }

// MemstoreNodes names a lock of docs/locks.md.
type MemstoreNodes struct{}

// LockName implements Name.
func (MemstoreNodes) LockName() string { return "memstore_nodes" }

// MemstoreJobs names a lock of docs/locks.md.
type MemstoreJobs struct{}

// LockName implements Name.
func (MemstoreJobs) LockName() string { return "memstore_jobs" }

// MemstoreWatchers names a lock of docs/locks.md.
type MemstoreWatchers struct{}

// LockName implements Name.
func (MemstoreWatchers) LockName() string { return "memstore_watchers" }

// MemstoreWatcher names a lock of docs/locks.md.
type MemstoreWatcher struct{}

// LockName implements Name.
func (MemstoreWatcher) LockName() string { return "memstore_watcher" }

// MemstoreSessions names a lock of docs/locks.md.
type MemstoreSessions struct{}

// LockName implements Name.
func (MemstoreSessions) LockName() string { return "memstore_sessions" }

// MemstoreBoard names a lock of docs/locks.md.
type MemstoreBoard struct{}

// LockName implements Name.
func (MemstoreBoard) LockName() string { return "memstore_board" }

// MemstoreInstances names a lock of docs/locks.md.
type MemstoreInstances struct{}

// LockName implements Name.
func (MemstoreInstances) LockName() string { return "memstore_instances" }

// MemstoreLogs names a lock of docs/locks.md.
type MemstoreLogs struct{}

// LockName implements Name.
func (MemstoreLogs) LockName() string { return "memstore_logs" }

// MemstoreRevocations names a lock of docs/locks.md.
type MemstoreRevocations struct{}

// LockName implements Name.
func (MemstoreRevocations) LockName() string { return "memstore_revocations" }

// MemstoreStats names a lock of docs/locks.md.
type MemstoreStats struct{}

// LockName implements Name.
func (MemstoreStats) LockName() string { return "memstore_stats" }

// MemstoreLastNodes names a lock of docs/locks.md.
type MemstoreLastNodes struct{}

// LockName implements Name.
func (MemstoreLastNodes) LockName() string { return "memstore_last_nodes" }

// MemstoreSettings names a lock of docs/locks.md.
type MemstoreSettings struct{}

// LockName implements Name.
func (MemstoreSettings) LockName() string { return "memstore_settings" }

// MemstoreWaiting names a lock of docs/locks.md.
type MemstoreWaiting struct{}

// LockName implements Name.
func (MemstoreWaiting) LockName() string { return "memstore_waiting" }

// MemstoreTenants names a lock of docs/locks.md.
type MemstoreTenants struct{}

// LockName implements Name.
func (MemstoreTenants) LockName() string { return "memstore_tenants" }

// FleetDividing names a lock of docs/locks.md.
type FleetDividing struct{}

// LockName implements Name.
func (FleetDividing) LockName() string { return "fleet_dividing" }

// FleetBuilding names a lock of docs/locks.md.
type FleetBuilding struct{}

// LockName implements Name.
func (FleetBuilding) LockName() string { return "fleet_building" }

// FleetWriters names a lock of docs/locks.md.
type FleetWriters struct{}

// LockName implements Name.
func (FleetWriters) LockName() string { return "fleet_writers" }

// FleetSilent names a lock of docs/locks.md.
type FleetSilent struct{}

// LockName implements Name.
func (FleetSilent) LockName() string { return "fleet_silent" }

// GuardCatalog names a lock of docs/locks.md.
type GuardCatalog struct{}

// LockName implements Name.
func (GuardCatalog) LockName() string { return "guard_catalog" }

// GuardReactions names a lock of docs/locks.md.
type GuardReactions struct{}

// LockName implements Name.
func (GuardReactions) LockName() string { return "guard_reactions" }

// GuardRates names a lock of docs/locks.md.
type GuardRates struct{}

// LockName implements Name.
func (GuardRates) LockName() string { return "guard_rates" }

// GuardCounter names a lock of docs/locks.md.
type GuardCounter struct{}

// LockName implements Name.
func (GuardCounter) LockName() string { return "guard_counter" }

// GuardObservations names a lock of docs/locks.md.
type GuardObservations struct{}

// LockName implements Name.
func (GuardObservations) LockName() string { return "guard_observations" }

// RedisPermits names a lock of docs/locks.md.
type RedisPermits struct{}

// LockName implements Name.
func (RedisPermits) LockName() string { return "redis_permits" }

// RedisAbandoned names a lock of docs/locks.md.
type RedisAbandoned struct{}

// LockName implements Name.
func (RedisAbandoned) LockName() string { return "redis_abandoned" }

// RedisHealth names a lock of docs/locks.md.
type RedisHealth struct{}

// LockName implements Name.
func (RedisHealth) LockName() string { return "redis_health" }

// RedisReleases names a lock of docs/locks.md.
type RedisReleases struct{}

// LockName implements Name.
func (RedisReleases) LockName() string { return "redis_releases" }

// RedisClosing names a lock of docs/locks.md.
type RedisClosing struct{}

// LockName implements Name.
func (RedisClosing) LockName() string { return "redis_closing" }

// RedisLastSeen names a lock of docs/locks.md.
type RedisLastSeen struct{}

// LockName implements Name.
func (RedisLastSeen) LockName() string { return "redis_last_seen" }

// RedisRecentJobs names a lock of docs/locks.md.
type RedisRecentJobs struct{}

// LockName implements Name.
func (RedisRecentJobs) LockName() string { return "redis_recent_jobs" }

// RedisMembers names a lock of docs/locks.md.
type RedisMembers struct{}

// LockName implements Name.
func (RedisMembers) LockName() string { return "redis_members" }

// Session names a lock of docs/locks.md.
type Session struct{}

// LockName implements Name.
func (Session) LockName() string { return "session" }

// SessionDirectory names a lock of docs/locks.md.
type SessionDirectory struct{}

// LockName implements Name.
func (SessionDirectory) LockName() string { return "session_directory" }

// AudioBuffer names a lock of docs/locks.md.
type AudioBuffer struct{}

// LockName implements Name.
func (AudioBuffer) LockName() string { return "audio_buffer" }

// SessionSpeech names a lock of docs/locks.md.
type SessionSpeech struct{}

// LockName implements Name.
func (SessionSpeech) LockName() string { return "session_speech" }

// SocketHub names a lock of docs/locks.md.
type SocketHub struct{}

// LockName implements Name.
func (SocketHub) LockName() string { return "socket_hub" }

// SocketConn names a lock of docs/locks.md.
type SocketConn struct{}

// LockName implements Name.
func (SocketConn) LockName() string { return "socket_conn" }

// NodeConnNode names a lock of docs/locks.md.
type NodeConnNode struct{}

// LockName implements Name.
func (NodeConnNode) LockName() string { return "node_conn_node" }

// NodeConns names a lock of docs/locks.md.
type NodeConns struct{}

// LockName implements Name.
func (NodeConns) LockName() string { return "node_conns" }

// NodeConn names a lock of docs/locks.md.
type NodeConn struct{}

// LockName implements Name.
func (NodeConn) LockName() string { return "node_conn" }

// BusRecent names a lock of docs/locks.md.
type BusRecent struct{}

// LockName implements Name.
func (BusRecent) LockName() string { return "bus_recent" }

// BusCounters names a lock of docs/locks.md.
type BusCounters struct{}

// LockName implements Name.
func (BusCounters) LockName() string { return "bus_counters" }

// BusTakeovers names a lock of docs/locks.md.
type BusTakeovers struct{}

// LockName implements Name.
func (BusTakeovers) LockName() string { return "bus_takeovers" }

// NodesRegistering names a lock of docs/locks.md.
type NodesRegistering struct{}

// LockName implements Name.
func (NodesRegistering) LockName() string { return "nodes_registering" }

// ServerLive names a lock of docs/locks.md.
type ServerLive struct{}

// LockName implements Name.
func (ServerLive) LockName() string { return "server_live" }

// ServerStreams names a lock of docs/locks.md.
type ServerStreams struct{}

// LockName implements Name.
func (ServerStreams) LockName() string { return "server_streams" }

// ServerRefused names a lock of docs/locks.md.
type ServerRefused struct{}

// LockName implements Name.
func (ServerRefused) LockName() string { return "server_refused" }

// ServerReads names a lock of docs/locks.md.
type ServerReads struct{}

// LockName implements Name.
func (ServerReads) LockName() string { return "server_reads" }

// ServerLogins names a lock of docs/locks.md.
type ServerLogins struct{}

// LockName implements Name.
func (ServerLogins) LockName() string { return "server_logins" }

// ServerAddresses names a lock of docs/locks.md.
type ServerAddresses struct{}

// LockName implements Name.
func (ServerAddresses) LockName() string { return "server_addresses" }

// ServerTokenExpiry names a lock of docs/locks.md.
type ServerTokenExpiry struct{}

// LockName implements Name.
func (ServerTokenExpiry) LockName() string { return "server_token_expiry" }

// ConvertLanguages names a lock of docs/locks.md.
type ConvertLanguages struct{}

// LockName implements Name.
func (ConvertLanguages) LockName() string { return "convert_languages" }

// JobringJobs names a lock of docs/locks.md.
type JobringJobs struct{}

// LockName implements Name.
func (JobringJobs) LockName() string { return "jobring_jobs" }

// JobringDecisions names a lock of docs/locks.md.
type JobringDecisions struct{}

// LockName implements Name.
func (JobringDecisions) LockName() string { return "jobring_decisions" }

// GuardSeries names a lock of docs/locks.md.
type GuardSeries struct{}

// LockName implements Name.
func (GuardSeries) LockName() string { return "guard_series" }

// TenantsRefusals names a lock of docs/locks.md.
type TenantsRefusals struct{}

// LockName implements Name.
func (TenantsRefusals) LockName() string { return "tenants_refusals" }
