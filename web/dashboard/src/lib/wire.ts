// Generated from package wire by go test ./web/dashboard -update. Do not edit.

export interface Admission {
  /** How many slots may be granted, at most max_concurrent_jobs. 0: the node is ejected, it keeps its jobs and gets no new ones. */
  slots: number;
  /** Its jobs failed much more often than those of other nodes; it did not acknowledge them; or it acknowledged them and sent no results. */
  reason: 'failing' | 'ack_timeouts' | 'silent';
  /** When it was decided, Unix milliseconds. */
  since_ms?: number;
  /** Until when it is meant to last, Unix milliseconds. Then more slots are admitted, step by step. Absent: nothing is planned. */
  until_ms?: number;
  /** How many times in a row the node was ejected. */
  times: number;
}

export interface Attempt {
  attempt_id: number;
  node_id: string;
  started_ms: number;
  ended_ms?: number;
  /** The reason for which it ended, unless with the result. */
  reason?: string;
}

export interface AuditEntry {
  /** Its position in the log. */
  id: string;
  /** When it happened, Unix milliseconds on the clock of the instance that recorded it. */
  at_ms: number;
  /** The name of the caller's key; for a session, of the key that minted its token; peer:<instance> for a request of another instance. */
  key?: string;
  /** The role of the caller. Absent: it could not be authenticated. */
  role?: string;
  /** The tenant of the caller; for a caller of all tenants, that of the object. */
  tenant_id?: string;
  /** What was done, such as node.drain. A denial of something that is not audited has the method and the path. */
  action: string;
  /** What it was done to, such as node/gpu-1. */
  object?: string;
  outcome: 'ok' | 'denied' | 'failed';
  /** Why it was denied or failed. */
  reason?: string;
  /** The X-Request-Id of the request, or of the handshake of a WebSocket. */
  request_id?: string;
  /** The address of the caller, or of the load balancer before it. */
  address?: string;
  /** The instance that recorded it. */
  instance: string;
  /** How many denials of the same address, or failures of the same key, were left out before this entry. */
  suppressed?: number;
}

export interface AuditList {
  entries: AuditEntry[];
  /** The position after the last entry that was read: after of the next request. Absent: the log is empty. */
  next?: string;
  /** Entries after the given position may have been dropped before they were read. */
  gap?: boolean;
}

export interface Caller {
  role: string;
  /** The name of the key. It is absent without keys. */
  key?: string;
  /** The tenant of the key; absent: all tenants. */
  tenant_id?: string;
  /** The caller has logged in, and sends a cookie. */
  login: boolean;
  /** When the login ends, in Unix milliseconds. */
  expires_ms?: number;
  /** No keys are configured: every caller is an operator, and there is no login. */
  open: boolean;
  /** The request had no credential, and auth.anonymous_role gives it the role: there need not be a login. */
  anonymous: boolean;
  /** The version of the instance that answers. */
  version: string;
  /** The incarnation of the instance that answers. */
  instance: string;
  /** There are tenants: a key or a node belongs to one. */
  multi_tenant: boolean;
  /** The links that are configured as dashboard.links. */
  links: Link[];
}

export interface CancelResponse {
  ok: boolean;
  /** The job is cancelled. False: it had already ended otherwise. */
  cancelled: boolean;
  /** The request waited for a slot, and gets none: its caller gets the error CANCELLED. If a node was getting it at this moment, it ends as a cancelled job. */
  waited?: boolean;
  job: Job;
}

export interface Candidate {
  node_id: string;
  chosen?: boolean;
  /** The reason for which it was rejected. Absent, and not chosen: it was not needed. */
  reason?: string;
}

export interface CapabilityByType {
  asr?: boolean;
  nmt?: boolean;
  tts?: boolean;
  tone?: boolean;
  semantic?: boolean;
}

export interface CatalogService {
  service_id: string;
  /** The ModelHub lists it. */
  listed: boolean;
  name?: string;
  type?: string;
  /** The newest first. */
  versions?: string[];
}

export interface ClusterLag {
  p50_ms: number;
  p95_ms: number;
  p99_ms: number;
  /** The parts of the lag. Quantiles of parts do not add up to those of the whole. */
  stages: LagStages;
}

export interface ClusterPoint {
  /** In Unix milliseconds, on the clock of the instance that computed it. */
  at_ms: number;
  /** The time over which jobs, refusals and dispatches were counted. */
  span_ms: number;
  /** Jobs that ended with a result. */
  done: number;
  failed: number;
  cancelled: number;
  /** Requests that were refused. */
  refused: number;
  /** The requests that were refused, by code. Absent: there were none. */
  refusals?: Record<string, number>;
  /** Attempts that were followed by another. */
  retries: number;
  /** Requests that wait for a free slot. */
  waiting: number;
  /** Each uses a slot. */
  jobs_in_flight: number;
  sessions: number;
  instances: number;
  /** Nodes that may get jobs if they have a free slot. */
  ready: number;
  degraded: number;
  draining: number;
  ejected: number;
  disconnected: number;
  offline: number;
  /** Slots of the ready nodes. */
  slots: number;
  /** Of these, the ones in use, as far as the instance that computed it knew. */
  used_slots: number;
  /** The median time from a request to its delivery. Absent: nothing was dispatched. */
  dispatch_p50_ms?: number;
  /** The time that 95 % of the requests did not exceed. */
  dispatch_p95_ms?: number;
  /** How far the results that were sent to sessions are behind their speakers. Absent: none was sent. */
  lag?: ClusterLag;
}

export interface ClusterSeries {
  /** The usual time between two points. */
  interval_ms: number;
  /** The oldest first. There is none for a time in which no instance computed statistics. */
  points: ClusterPoint[];
}

export interface ConfigKey {
  name: string;
  /** operator, viewer, metrics, minter or node. */
  role: string;
  /** The tenant of the key. Absent: none. */
  tenant_id?: string;
  /** The pattern of node names, for the role node. */
  nodes?: string;
  /** The capability pool of these nodes. */
  pool_id?: string;
  /** How many nodes may be registered with it. Absent: any number. */
  max_nodes?: number;
  /** How many secrets it has: two while it is rotated. */
  secrets: number;
  /** The key is refused before this time. */
  not_before_ms?: number;
  /** The key is refused from this time on. */
  not_after_ms?: number;
  /** Why the key is refused now: not_yet_valid, expired or revoked. Absent: it is valid. */
  refused?: string;
}

export interface ConfigSetting {
  /** The table of the key, such as scheduler.dispatch. Empty: none. */
  section: string;
  /** The name of the key in its table. */
  key: string;
  /** A text as it is; everything else as in a config file. Of URLs, what may be a secret is left out. */
  value: string;
  /** It has its default value. */
  default: boolean;
  /** The value may be a secret and is not shown: only whether it is the default. */
  hidden?: boolean;
  /** A reload puts another value in force; otherwise a restart does. */
  reload: boolean;
  /** What the key means. */
  doc: string;
}

export interface ConfigSigner {
  kid: string;
  /** sign: new tokens are signed with it, and it verifies. verify: it only verifies. */
  use: string;
  /** HS256. */
  algorithm: string;
}

export interface ConfigView {
  /** The name of the config file, without its directory. Absent: there is none. */
  file?: string;
  /** When it was loaded for the last time, at the start or by a reload. */
  loaded_ms: number;
  /** The incarnation of the instance that answers. Each has a configuration of its own. */
  instance: string;
  /** Identifies the keys and signers: instances with the same digest accept the same. */
  keys_digest: string;
  /** Keys that the last reload found changed, and that only a restart puts in force. */
  needs_restart?: string[];
  settings: ConfigSetting[];
  /** The keys by name, without their secrets. */
  keys: ConfigKey[];
  /** What session tokens are signed with, without the secrets. */
  signers: ConfigSigner[];
}

export interface CoverGroup {
  /** Nodes of this pool; absent: of all pools. */
  pool_id?: string;
  /** Nodes that serve this tenant; absent: that serve every tenant. */
  tenant_id?: string;
}

export interface DeadLetter {
  /** Its inbox, a slash, and its number in the inbox. */
  id: string;
  /** The incarnation of the instance whose inbox it was in. */
  incarnation: string;
  /** The kind of the message, if it can be decoded. */
  kind?: string;
  from?: string;
  reason: 'NOT_UNDERSTOOD' | 'FAILED';
  /** The number of deliveries. */
  deliveries: number;
  age_ms: number;
  bytes: number;
  /** The message, if it is JSON and one dead letter is requested. */
  body?: unknown;
  /** The message, if it is not JSON. */
  text?: string;
}

export interface DeadLetterList {
  dead_letters: DeadLetter[];
  /** The number of dead letters, listed or not. */
  total: number;
}

export interface DeadLettersResponse {
  done: string[];
  /** The dead letters for which it failed, and why. */
  failed?: Record<string, string>;
}

export interface Decision {
  attempt_id: number;
  /** When, in Unix milliseconds on the clock of the instance. */
  at_ms: number;
  /** The instance that chose the node. */
  instance: string;
  /** The node that was chosen. */
  node_id: string;
  /** The capability pool of this node. Absent: none. */
  pool_id?: string;
  /** The nodes that were drawn, in their order; at most 8. */
  candidates: Candidate[];
  /** How many further nodes were rejected, by reason. */
  others: Record<string, number>;
}

export interface Direction {
  src_lang: string;
  tgt_lang: string;
  /** Nodes that serve the direction, whatever their health. */
  nodes: number;
  /** Those that can get jobs now. */
  ready: number;
  /** Slots of the ready nodes that may be granted. */
  capacity: number;
  /** Slots of the ready nodes that are taken, by jobs of any direction. */
  in_flight: number;
  /** Slots of the ready nodes that are not taken. */
  free: number;
  /** The pools, and the tenants with nodes of their own, that have nodes for the direction and no ready one. Absent: none. */
  uncovered?: CoverGroup[];
  /** Jobs that ended in the last 5 minutes. This and the fields below are of all instances, some 10 s old, and absent without statistics and for a caller of one tenant. */
  jobs_5m?: number;
  /** Requests that were refused in the last 5 minutes. */
  refused_5m?: number;
  /** Requests that wait for a free slot now. */
  waiting?: number;
  /** How long at most 95 % of the requests of the last 5 minutes waited for a free slot, those that were refused included. Absent: there were none. */
  wait_p95_ms?: number;
}

export interface DirectionCoverage {
  src_lang: string;
  tgt_lang: string;
  /** Only nodes of this pool are counted. */
  pool_id?: string;
  /** The nodes of this tenant are counted, beside those that serve every tenant. */
  tenant_id?: string;
  /** Nodes that may get its jobs. */
  ready: number;
  /** The slots of these nodes. */
  slots: number;
}

export interface DirectionList {
  directions: Direction[];
  /** There are further directions. */
  truncated: boolean;
  /** The cursor of the next page, for the same filters. Absent: this is the last page. */
  next_cursor?: string;
}

export interface DirectionName {
  src_lang: string;
  tgt_lang: string;
  /** Only nodes of this pool count. */
  pool_id?: string;
  /** Only nodes that serve this tenant count. */
  tenant_id?: string;
}

export interface DirectionUse {
  src_lang: string;
  tgt_lang: string;
  jobs: number;
}

export interface DrainEffect {
  /** Jobs that the node has. It keeps them. */
  in_flight: number;
  /** The slots of the node that may be granted. */
  slots: number;
  /** The share of these in the slots of all ready nodes. 0: the node is not ready as it is. */
  share_of_slots: number;
  /** Directions of the node that no other ready node serves, in the pool or for the tenant if it is named; at most 200. */
  none: DirectionName[];
  /** Directions of the node that one other ready node serves, in the pool or for the tenant if it is named; at most 200. */
  one: DirectionName[];
  /** There are further directions in one of the lists, or the node serves so many that not all were counted. */
  truncated: boolean;
}

export interface Event {
  /** Its position in the log. */
  id: string;
  /** When it happened, Unix milliseconds on the clock of the instance that recorded it. */
  at_ms: number;
  kind: 'node_registered' | 'node_lost' | 'node_silent' | 'jobs_moved' | 'node_left' | 'node_removed' | 'node_evicted' | 'node_drained' | 'node_resumed' | 'node_ejected' | 'node_readmitted' | 'instance_started' | 'instance_stopping' | 'takeover' | 'dead_letter' | 'store_down' | 'store_up' | 'stats_leader' | 'pools_changed' | 'service_unavailable' | 'coverage';
  /** The node that it is about. */
  node_id?: string;
  /** The instance that recorded it. */
  instance: string;
  /** How many jobs were moved to other nodes. */
  jobs?: number;
  detail?: string;
  /** The direction that it is about, with tgt_lang. Only of kind coverage. */
  src_lang?: string;
  tgt_lang?: string;
  /** How many ready nodes the direction has. 0: it has lost its last one. */
  ready?: number;
}

export interface EventList {
  events: Event[];
  /** The position after the last event that was read: after of the next request. Absent: the log is empty. With order=desc: before of the next request. Absent: there are no older events. */
  next?: string;
  /** Events after the given position may have been dropped before they were read. */
  gap?: boolean;
}

export interface ExplainNode {
  node_id: string;
  /** Its capability pool. Absent: none. */
  pool_id?: string;
  eligible: boolean;
  /** Why the node is rejected. */
  reason?: string;
  /** The reason is a preference, which is dropped before the dispatch is refused. */
  preference?: boolean;
  /** Its capability pool is not eligible: it is chosen only if no eligible pool has a free slot. */
  fallback?: boolean;
  detail?: string;
  in_flight: number;
  max_concurrent_jobs: number;
  /** How many of its slots may be granted, because it failed too often. Absent: all. */
  admission?: Admission;
  /** Its services that the job requires, that are not ready, or that are marked as unavailable; at most 100. */
  services?: ExplainService[];
}

export interface ExplainPool {
  /** Empty: the nodes that belong to no pool. */
  pool_id: string;
  /** The job is tried in this pool before it is tried in those that are not eligible. */
  eligible: boolean;
  /** It is not eligible, and the job may run there if no eligible pool has a free slot. */
  fallback?: boolean;
  /** Why it is not eligible: the tenant is bound to another pool; with the scope all_required, the pool does not require a service that the job does; or its nodes belong to no pool. */
  why?: 'tenant_bound' | 'service_not_required' | 'no_pool';
  /** The service that the job requires and the pool does not. */
  service?: string;
  /** Registered nodes of the pool, silent ones included. */
  nodes: number;
  /** Those that could do the job, now or later. */
  capable: number;
  /** Those that could take it now. */
  free: number;
  /** If no node is free, the most frequent reason, as in the metric phase3_pool_attempt_total. */
  reason?: string;
}

export interface ExplainResponse {
  src_lang: string;
  tgt_lang: string;
  /** OK, or the error code that a dispatch would get. ALL_CANDIDATES_FULL_OR_FAILED: with options.max_wait_ms it would wait. */
  verdict: string;
  detail: string;
  /** How many candidates were rejected, by reason. */
  reasons: Record<string, number>;
  nodes: ExplainNode[];
  /** There are more nodes than are listed. */
  truncated: boolean;
  /** The services that the job requires, as the ModelHub lists them. Absent without a ModelHub. */
  required_services?: CatalogService[];
  /** The capability pool to which the tenant is bound: the job runs nowhere else. */
  bound_pool?: string;
  /** The capability pools, the eligible ones first; at most 50. Who has access to one tenant sees only those that are eligible and have nodes for it. Absent without pools. */
  pools?: ExplainPool[];
  /** There are more pools than are listed. */
  pools_truncated?: boolean;
  /** What the wait for a slot would be. Absent: a slot is free, or no node is capable. */
  wait?: ExplainWait;
}

export interface ExplainService {
  service_id: string;
  /** Its name at the ModelHub. */
  name?: string;
  /** Its version on the node. */
  version?: string;
  /** The newest version at the ModelHub. */
  latest_version?: string;
  type?: string;
  /** As the node declares it. Absent: the node does not declare the service. */
  status?: 'ready' | 'downloading' | 'verifying' | 'installing' | 'stopped' | 'error';
  /** How much longer it counts as not ready, because the node reported it as unavailable. */
  marked_ms?: number;
}

export interface ExplainWait {
  /** The capability pool in whose queue it would wait. Absent: that of requests that are bound to none. */
  pool_id?: string;
  /** Its place in the line of its tenant and class. The first one has 1. */
  place: number;
  /** Requests of its tenant that wait in this queue. */
  tenant_waiting: number;
  /** How long it would probably wait. Absent: that is not known. */
  estimate_ms?: number;
  /** Why it could not wait, given its options.max_wait_ms. Absent: it could. */
  refusal?: 'CANNOT_BE_MET' | 'QUEUE_FULL';
  /** Requests of other tenants that wait for the same. Absent for callers of one tenant. */
  other_tenants_waiting?: number;
  /** Requests that require something else, and wait for some of the same nodes: they slow the wait down. Absent for callers of one tenant. */
  other_classes_waiting?: number;
  detail: string;
}

export interface Instance {
  /** Its name, which stays the same after a restart if it is configured. */
  instance_id: string;
  /** This start of the instance. */
  incarnation: string;
  /** It was seen within presence_ttl_ms. An instance that is listed and not present has left work behind. */
  present: boolean;
  /** The instance that answers. */
  this?: boolean;
  draining?: boolean;
  /** The URL at which the other instances and all nodes reach it. */
  advertise_url?: string;
  version?: string;
  /** Identifies the keys and signers that it has in force, without revealing them: instances with the same digest accept the same credentials. */
  keys_digest?: string;
  /** Unix milliseconds. */
  started_ms?: number;
  /** Nodes that are connected to it. */
  nodes: number;
  sessions: number;
  /** Jobs in flight that it dispatched. */
  jobs: number;
  /** Messages of other instances in its inbox. */
  inbox: number;
  /** Messages that it has fetched and not acknowledged. */
  unsettled: number;
  dead_letters: number;
  /** From how many dead instances it has taken over since it started. */
  takeovers: number;
}

export interface InstanceList {
  instances: Instance[];
}

export interface Job {
  job_id: string;
  request_id: string;
  session_id: string;
  tenant_id?: string;
  src_lang: string;
  tgt_lang: string;
  state: 'DISPATCHED' | 'ACKED' | 'RETRYING' | 'DONE' | 'FAILED' | 'CANCELLED';
  /** The node that has the job, or had it last. */
  node_id: string;
  /** The capability pool of the job, which its first placement decided. Absent: none. */
  pool_id?: string;
  /** The job runs in this pool only, because its tenant was bound to it. */
  pool_bound?: boolean;
  attempt_id: number;
  /** The reason for which the last attempt or the job ended. */
  reason?: string;
  /** The reason in the node's own words. */
  detail?: string;
  result?: unknown;
  /** There is a result, and the key may not read what was said. */
  result_withheld?: boolean;
  /** It is a synthetic utterance through one node, which an operator sent. */
  probe?: boolean;
  created_ms: number;
  updated_ms: number;
  deadline_ms: number;
  attempts: Attempt[];
}

export interface JobDetail {
  job_id: string;
  request_id: string;
  session_id: string;
  tenant_id?: string;
  src_lang: string;
  tgt_lang: string;
  state: 'DISPATCHED' | 'ACKED' | 'RETRYING' | 'DONE' | 'FAILED' | 'CANCELLED';
  /** The node that has the job, or had it last. */
  node_id: string;
  /** The capability pool of the job, which its first placement decided. Absent: none. */
  pool_id?: string;
  /** The job runs in this pool only, because its tenant was bound to it. */
  pool_bound?: boolean;
  attempt_id: number;
  /** The reason for which the last attempt or the job ended. */
  reason?: string;
  /** The reason in the node's own words. */
  detail?: string;
  result?: unknown;
  /** There is a result, and the key may not read what was said. */
  result_withheld?: boolean;
  /** It is a synthetic utterance through one node, which an operator sent. */
  probe?: boolean;
  created_ms: number;
  updated_ms: number;
  deadline_ms: number;
  attempts: Attempt[];
  /** How a node was chosen for each attempt, if that was asked for and an instance remembers it. */
  decisions?: Decision[];
  /** The instances that could not be asked for decisions, or did not answer in time. */
  incomplete?: string[];
}

export interface JobList {
  jobs: Job[];
  /** The cursor of the next page, for the same filters. Absent: this is the last page. */
  next_cursor?: string;
  /** The instances that answered remember all jobs that ended there since then, in Unix milliseconds. Older ones are missing, or some are, and so are those that ended on an instance that is gone. */
  since_ms: number;
  /** Some instances were not asked, or did not answer: jobs that ended there may be missing. */
  partial?: boolean;
  /** The instances that could not be asked, or did not answer in time. Absent although the list is partial: not even their names are known. */
  incomplete?: string[];
}

export interface JobsCancelResponse {
  /** Nothing was changed. */
  dry_run: boolean;
  /** How many open jobs matched. */
  matches: number;
  /** More match than one request may cancel. */
  truncated: boolean;
  /** No job that matched was created then or later. Send it as filter.until. */
  until_ms: number;
  cancelled: number;
  /** How many ended before they could be cancelled. */
  already_ended: number;
  /** For how many the store did not answer: they may be cancelled or not. */
  failed: number;
  /** How many were not tried, because of the limit, the time, or a store that does not answer. */
  remaining: number;
}

export interface LagStages {
  /** From the end of the speech to the end of the utterance. */
  segmentation: Quantiles;
  /** Until a node with a free slot was found. */
  wait: Quantiles;
  /** Until the node that produced the result had the job, retries included. */
  dispatch: Quantiles;
  /** Until the node's result was stored. */
  node: Quantiles;
  /** Until it was sent: the way back, and results before it. */
  return: Quantiles;
}

export interface Link {
  name: string;
  /** An https or http URL. */
  url: string;
}

export interface LiveOverview {
  /** The newest figures of the fleet. */
  point: ClusterPoint;
}

export interface LiveStatus {
  /** The incarnation of the instance that answers. */
  instance: string;
  /** It can use the store, as the calls of the last moment found. */
  store_reachable: boolean;
}

export interface Load {
  cpu?: number;
  gpu?: number;
  memory?: number;
}

export interface LogoutResponse {
  /** The login is not valid any more. */
  ended: boolean;
  warning?: string;
}

export interface ModelUse {
  model_id: string;
  installed: number;
  /** Of these, the ones that may get jobs. */
  ready: number;
  /** The slots of these nodes. */
  slots: number;
}

export interface Node {
  node_id: string;
  epoch: number;
  /** It was seen recently and is not known to be disconnected for good. */
  online: boolean;
  /** The effective health: draining if an operator drained the node, whatever it declares. */
  health: string;
  /** An operator drained the node: it gets no new jobs. */
  drained: boolean;
  /** Its connection is lost and within the grace period: it keeps its jobs and gets no new ones. */
  disconnected?: boolean;
  /** Since when nothing has come over its connection although it has a job, Unix milliseconds on the clock of the store. It counts as disconnected until something comes. */
  silent_since_ms?: number;
  /** It registered anew without a list of jobs: it gets none for the time of one attempt, in case it is still busy. */
  held?: boolean;
  /** How long the answering instance prefers other nodes, because this one did not acknowledge deliveries, or says nothing about its jobs. */
  set_aside_ms?: number;
  /** The slots that the node declares. */
  max_concurrent_jobs: number;
  /** How many of its slots may be granted, because it failed too often. Absent: all. */
  admission?: Admission;
  /** Slots of jobs that the node has not acknowledged. */
  reserved: number;
  /** Slots of jobs that the node has acknowledged. */
  running: number;
  /** Jobs that the node reports and that are not from this scheduler. */
  foreign: number;
  /** reserved + running + foreign, which counts against max_concurrent_jobs. */
  effective_load: number;
  current_load?: Load;
  /** When it was last seen, Unix milliseconds. */
  last_heartbeat_ms: number;
  asr_langs?: string[];
  semantic_langs: string[];
  nmt_pairs?: string[][];
  tts_langs?: string[];
  capability_by_type?: CapabilityByType;
  installed_models?: string[];
  installed_services?: Service[];
  features?: string[];
  region?: string;
  zone?: string;
  tenant_id?: string;
  /** Without its query. */
  callback_url?: string;
  /** The incarnation of the instance that it is connected to. */
  incarnation?: string;
  /** The capability pool of the node. */
  pool_id?: string;
  /** Why the node belongs to no pool although there are pools. */
  no_pool?: PoolGap;
  /** The attempts of the last hour that ended without a result, by reason, as far as the answering instance decided their end; GET /v1/nodes/{id}/series has those of all instances. Only of a single node. Absent: none. */
  failures?: Record<string, number>;
  /** Its services that count as not ready, because it reported them as unavailable. Only of a single node. Absent: none. */
  marks?: ServiceMark[];
  /** What would be missing without the node, if a drain was asked for with dry_run. */
  drain_effect?: DrainEffect;
}

export interface NodeDetail {
  /** The attempts of the last hour that ended without a result, by reason, as far as the answering instance decided their end; GET /v1/nodes/{id}/series has those of all instances. Only of a single node. Absent: none. */
  failures?: Record<string, number>;
  /** Its services that count as not ready, because it reported them as unavailable. Only of a single node. Absent: none. */
  marks?: ServiceMark[];
  /** What would be missing without the node, if a drain was asked for with dry_run. */
  drain_effect?: DrainEffect;
}

export interface NodeList {
  nodes: Node[];
  /** The cursor of the next page, for the same filters. Absent: this is the last page. */
  next_cursor?: string;
}

export interface NodePoint {
  /** In Unix milliseconds, a multiple of the interval. */
  at_ms: number;
  state: 'ready' | 'degraded' | 'draining' | 'ejected' | 'disconnected' | 'offline';
  /** Slots that may be granted, at most 4095. */
  slots: number;
  /** Slots in use, as far as an instance knew. */
  used_slots?: number;
  /** Jobs that ended with its result. */
  done: number;
  /** Attempts that it failed, did not acknowledge or did not end in time. */
  failed: number;
  /** The mean duration of the attempts that ended with a result, in steps of 10 ms. */
  mean_ms?: number;
}

export interface NodeRemoved {
  node_id: string;
  /** Jobs that the node had and that are given to other nodes. */
  moved_jobs: number;
  /** Why the node may come back. */
  warnings?: string[];
}

export interface NodeRow {
  node_id: string;
  /** Offline: it says so, or it has sent no heartbeat for the presence time. */
  state: 'ready' | 'degraded' | 'draining' | 'ejected' | 'disconnected' | 'offline';
  /** The slots that may be granted: those that it declares, or fewer while it is ejected or limited. */
  slots: number;
  /** The slots that were in use when the answering instance last heard of it. */
  used: number;
  region?: string;
  zone?: string;
  tenant_id?: string;
  /** Its capability pool. */
  pool_id?: string;
  /** The first of the languages that it has, for any step; at most 8, sorted. */
  langs: string[];
  /** How many further languages it has. */
  more_langs?: number;
  /** How many service packages are installed. */
  services: number;
  /** The highest of the loads that it reported, of CPU, GPU and memory. Absent: it reported none. */
  load?: number;
  /** When it was last seen, Unix milliseconds. */
  last_heartbeat_ms?: number;
  /** Jobs that it ended with a result in the last 5 minutes, as far as the answering instance decided their end. Absent: not counted. */
  done_5m?: number;
  /** Attempts that it failed in the same time. Absent: not counted. */
  failed_5m?: number;
  /** The incarnation of the instance that it is connected to. */
  incarnation?: string;
}

export interface NodeSeries {
  node_id: string;
  /** The time between two points. */
  interval_ms: number;
  /** The oldest first. There is none for a time in which the node was not registered, or the instance did not run. */
  points: NodePoint[];
  /** The instances that could not be asked, or did not answer in time: jobs that they counted are missing. */
  incomplete?: string[];
  /** The attempts of the last hour that ended without a result, by reason, as all instances counted them. Absent: none. */
  failures?: Record<string, number>;
}

export interface NodeTable {
  /** When the table was made, Unix milliseconds. */
  generated_ms: number;
  /** How old the table is. */
  age_ms: number;
  /** The answering instance has just started: nodes may be missing. */
  partial?: boolean;
  /** All nodes that the caller may see. */
  total: number;
  /** Those that match all filters. */
  matches: number;
  /** How many matches are before the first row. */
  offset: number;
  /** The nodes that match all filters but state, by state. States without nodes are absent. */
  states: Record<string, number>;
  rows: NodeRow[];
}

export interface NodeWithoutPool {
  node_id: string;
  online: boolean;
  /** The pool that its credential names, or else the one of which it lacks the fewest services. A caller of one tenant sees only that of a credential. */
  closest_pool?: string;
  /** A service of this pool that the node has not installed. Absent beside a pool: its credential names a pool that does not exist. */
  missing_service?: string;
  /** The pool is the one that its credential names. */
  by_credential?: boolean;
}

export interface NodesDrainResponse {
  /** Nothing was changed. */
  dry_run: boolean;
  /** How many nodes matched. */
  matches: number;
  /** More match than one request may change. */
  truncated: boolean;
  changed: number;
  /** How many were drained, or resumed, already. */
  unchanged: number;
  /** How many are gone, or for how many the store did not answer. */
  failed: number;
  /** How many were not tried, because of the limit, the time, or a store that does not answer. */
  remaining: number;
  /** What would be missing without these nodes, but for their jobs; in the answer to a dry run of a drain. */
  drain_effect?: DrainEffect;
}

export interface Pool {
  pool_id: string;
  name?: string;
  /** The services that its nodes have installed. */
  required_services: string[];
  nodes: PoolNodes;
  slots: PoolSlots;
  /** On how many of its online nodes the stages of the pipeline are installed, and ready. */
  core_services: PoolCoreServices;
  /** Some of its nodes, at most 5: ready ones, and ones that are not. */
  examples: PoolNode[];
  /** Tenants whose jobs run in this pool only; at most 100. */
  tenants: string[];
  /** How many tenants are bound to the pool. */
  tenant_count: number;
}

export interface PoolCoreServices {
  asr: StageCount;
  nmt: StageCount;
  tts: StageCount;
}

export interface PoolGap {
  /** The pool that its credential names, or else the one of which it lacks the fewest services. A caller of one tenant sees only that of a credential. */
  closest_pool?: string;
  /** A service of this pool that the node has not installed. Absent beside a pool: its credential names a pool that does not exist. */
  missing_service?: string;
  /** The pool is the one that its credential names. */
  by_credential?: boolean;
}

export interface PoolNode {
  node_id: string;
  ready: boolean;
  /** Why it gets no jobs, as in an explanation. */
  reason?: string;
}

export interface PoolNodes {
  /** Registered nodes, silent ones included. */
  total: number;
  /** Nodes with a recent heartbeat. */
  online: number;
  /** Online nodes that may get jobs while they have a free slot. */
  ready: number;
}

export interface PoolOverview {
  /** The fleet is divided into capability pools. */
  enabled: boolean;
  /** Grows whenever an instance publishes other pools. All instances have the same within a second. 0: none were ever published. */
  generation: number;
  /** By what pools are eligible for a job. Absent without pools. */
  pool_match_scope?: 'core_only' | 'all_required';
  /** A job for which no pool is eligible is refused. */
  strict_pool_eligibility: boolean;
  hash_seed: number;
  /** For how long after an utterance the next one of its session is tried in the same pool first. */
  session_affinity_seconds: number;
  /** The configuration of the answering instance describes other pools than those in force. A reload with publish_pools publishes them. */
  file_differs: boolean;
  /** Why the answering instance cannot use the pools of this generation; those before stay in force on it. */
  problem?: string;
  /** When the nodes were counted, Unix milliseconds. In a very large fleet they are not counted for every request. */
  counted_ms: number;
  /** In the order of the configuration; at most 1000. */
  pools: Pool[];
  /** The nodes that belong to no pool. None while pools are not enabled. */
  without_pool: WithoutPool;
}

export interface PoolSlots {
  /** Slots of the ready nodes that may be granted. */
  total: number;
  /** Slots of the ready nodes that are taken, by jobs of any pool. */
  used: number;
}

export interface ProbeResult {
  node_id: string;
  /** The node sent a result in time. */
  ok: boolean;
  job_id: string;
  state: 'DONE' | 'FAILED' | 'CANCELLED';
  /** Why it failed; empty: it did not. */
  reason: string;
  /** The reason in the node's own words; may be empty. */
  detail: string;
  src_lang: string;
  tgt_lang: string;
  /** When it began, Unix milliseconds. */
  started_ms: number;
  /** How long it took to reserve a slot and to record the job. */
  reserve_ms?: number;
  /** How long the delivery took. */
  deliver_ms?: number;
  /** The time from the delivery to the acknowledgement. If another instance received it, it is known to 0.1 s, or absent if the result came sooner than that. */
  ack_ms?: number;
  /** The time from the acknowledgement, or from the delivery if that is absent, to the result or the failure. */
  result_ms?: number;
  /** The time from the beginning to the end. */
  total_ms: number;
  /** The node sent a result. It is not shown. */
  result_withheld: boolean;
}

export interface Quantiles {
  p50_ms: number;
  p95_ms: number;
  p99_ms: number;
}

export interface RefusedNode {
  address: string;
  /** The error code with which it was refused. */
  reason: string;
  /** The field that was wrong, or missing. */
  field?: string;
  /** What to change. */
  advice: string;
  /** The last valid name that came from there. */
  node_id?: string;
  count: number;
  /** The first one that is counted, Unix milliseconds. */
  first_ms: number;
  /** The last one, Unix milliseconds. */
  last_ms: number;
  /** The instance that refused it, by its incarnation. */
  instance: string;
}

export interface RefusedNodeList {
  /** The latest first, at most 200. */
  refused: RefusedNode[];
  /** An instance could not be asked, or did not answer. */
  partial?: boolean;
}

export interface ReloadResponse {
  /** What this instance has put in force, such as: key admin changed. */
  changed: string[];
  /** Keys of the configuration that have changed since the start and that only a restart puts in force. */
  needs_restart: string[];
  /** As lingua config check prints them. */
  warnings?: string[];
  /** As in GET /v1/instances. */
  keys_digest: string;
}

export interface Revocation {
  /** What is revoked: kind~name, or session~tenant~name. */
  id: string;
  kind: 'key' | 'kid' | 'tenant' | 'session' | 'node' | 'login';
  name: string;
  /** The tenant of the session. */
  tenant_id?: string;
  /** What was issued or began before this time is revoked, Unix milliseconds. */
  before_ms?: number;
  /** When it was added, Unix milliseconds on the clock of the store. */
  at_ms: number;
  /** When it is dropped, because no such token can be alive then. Absent: when it is lifted. */
  until_ms?: number;
  /** The session was ended by DELETE /v1/sessions/{id}. */
  ended?: boolean;
  /** The name of the key with which it was requested. */
  by?: string;
  reason?: string;
  /** What may be a mistake in the request, for people. */
  warnings?: string[];
}

export interface RevocationList {
  revocations: Revocation[];
  /** The cursor of the next page. Absent: this is the last. */
  next_cursor?: string;
}

export interface Service {
  /** It contains none of @ , < > =. */
  service_id: string;
  version?: string;
  type?: string;
  status: 'ready' | 'downloading' | 'verifying' | 'installing' | 'stopped' | 'error';
}

export interface ServiceMark {
  service_id: string;
  /** Absent: all versions. */
  version?: string;
  /** Until when, Unix milliseconds. It ends before if the node declares that the service has become ready. */
  until_ms: number;
  /** Why, as the node reported it. Absent: the answering instance started after the report. */
  reason?: 'not_installed' | 'installing' | 'version_mismatch' | 'runtime_error' | 'state_drift' | 'other';
}

export interface ServiceUse {
  service_id: string;
  version?: string;
  type?: string;
  /** Nodes on which it is installed, whatever its status. */
  installed: number;
  /** Nodes on which it is ready and that may get jobs. */
  ready: number;
  /** The slots of these nodes. */
  slots: number;
  /** The name for people, as the ModelHub lists it. */
  name?: string;
  /** The newest version that the ModelHub lists. */
  latest_version?: string;
}

export interface SessionInfo {
  session_id: string;
  tenant_id?: string;
  /** The incarnation of the instance that has the session. */
  instance: string;
  /** Its two languages. */
  langs: string[];
  /** Unix milliseconds. */
  started_ms: number;
  /** A client is connected. Otherwise the session can be resumed for resume_seconds. */
  connected: boolean;
  utterances: number;
  /** Utterances of these whose result was not sent yet. */
  pending: number;
  /** The name of the key that minted the token of its connection, or of the key with which it is connected. */
  key?: string;
  /** The address of its client, or of the load balancer before it. Absent: it is not known. */
  remote?: string;
  /** How often it was resumed over another connection. */
  reconnects: number;
  /** Audio of an utterance is being received. */
  speaking: boolean;
  /** When the last message of its client was received, or the connection changed. Unix milliseconds. */
  last_active_ms: number;
  /** How far the last result was behind its speaker when it was sent. Absent: none was sent by this instance. */
  last_result_lag_ms?: number;
  /** The lag that 95 % of the last results, at most 32, did not exceed. */
  lag_p95_ms?: number;
  /** The parts of last_result_lag_ms. */
  lag_stages_ms?: SessionLag;
}

export interface SessionLag {
  /** From the end of the speech to the end of the utterance. */
  segmentation: number;
  /** Until a node with a free slot was found. */
  wait: number;
  /** Until the node that produced the result had the job, retries included. */
  dispatch: number;
  /** Until the node's result was stored. */
  node: number;
  /** Until it was sent: the way back, and results before it. */
  return: number;
}

export interface SessionList {
  sessions: SessionInfo[];
  /** The cursor of the next page. Absent: this is the last. */
  next_cursor?: string;
  /** Some instances were not asked, or did not answer: their sessions are missing. */
  partial?: boolean;
}

export interface SessionTerminated {
  session_id: string;
  tenant_id?: string;
  /** There was such a session. Otherwise only its tokens are revoked. */
  ended: boolean;
}

export interface StageCount {
  /** Nodes that declare a service of this type, whatever its status, or that have the stage without declaring services of this type. */
  installed: number;
  /** Of these, the ones on which such a service is ready and not marked as unavailable, or that declare none. Whether the node gets jobs does not matter. */
  ready: number;
}

export interface Stats {
  /** How old the snapshot is. */
  age_ms: number;
  /** It is older than it should be: no instance computes it, or the answering instance cannot read it from the store. */
  stale: boolean;
  store: StatsStore;
  /** When the snapshot was computed, in Unix milliseconds on the clock of the instance that computed it. */
  generated_ms: number;
  /** The incarnation of the instance that computed it. */
  generated_by: string;
  /** Grows whenever another instance begins to compute snapshots. */
  fence: number;
  nodes: StatsNodes;
  /** Sessions that are connected. */
  sessions: number;
  jobs_in_flight: number;
  /** Jobs that ended. */
  jobs: StatsJobs;
  /** Jobs that ended, by direction. */
  language_use: StatsLanguages;
  /** How many nodes could take a job of a direction now. */
  coverage: StatsCoverage;
  /** What is installed on the nodes. */
  compute: StatsCompute;
  instances: StatsInstances;
}

export interface StatsCompute {
  /** The most installed ones, at most 200. */
  services: ServiceUse[];
  /** How many others there are. */
  other_services: number;
  /** The most installed ones, at most 200. */
  models: ModelUse[];
  /** How many others there are. */
  other_models: number;
  /** Services that the ModelHub lists and no node has, at most 200. Absent without a ModelHub. */
  not_installed?: CatalogService[];
  /** How many others there are. */
  other_not_installed?: number;
}

export interface StatsCoverage {
  /** How many directions were counted. */
  directions: number;
  /** Directions without a ready node, in a pool or for a tenant if it is named: every request that depends on it is refused. At most 200. */
  none: DirectionCoverage[];
  /** Directions with one ready node, in a pool or for a tenant if it is named: none is left if it fails. At most 200. */
  one: DirectionCoverage[];
  /** Directions with two ready nodes or more, those with the fewest slots first. Pools are not listed. */
  more: DirectionCoverage[];
}

export interface StatsInstances {
  present: number;
  draining: number;
  /** Instances that are gone and have left something behind. */
  absent: number;
  /** Messages between instances that could not be handled, of all instances. They are counted about every 20 s. */
  dead_letters: number;
}

export interface StatsJobs {
  last_5m: StatsOutcomes;
  last_hour: StatsOutcomes;
  last_day: StatsOutcomes;
}

export interface StatsLanguages {
  last_5m: StatsUse;
  last_hour: StatsUse;
  last_day: StatsUse;
}

export interface StatsNodes {
  /** Registered nodes, offline ones included. */
  total: number;
  /** Nodes that may get jobs if they have a free slot. */
  ready: number;
  degraded: number;
  draining: number;
  /** Nodes that get no jobs for a while because they failed much more often than others. */
  ejected: number;
  /** Nodes whose connection was lost a moment ago. */
  disconnected: number;
  /** Nodes that are registered and silent. */
  offline: number;
  /** Nodes with a WebSocket. */
  connected: number;
  /** Slots of the ready nodes. */
  slots: number;
  /** Of these, the ones in use, as far as the instance that computed it has learned in the last 15 s. */
  used_slots: number;
  /** When the nodes were counted, for this and for coverage and compute, in Unix milliseconds. In a very large fleet they are counted less often than the snapshot is computed. */
  counted_ms: number;
}

export interface StatsOutcomes {
  total: number;
  /** By their last state: DONE, FAILED, CANCELLED. */
  outcomes: Record<string, number>;
  /** Those that were not done, by reason. */
  reasons: Record<string, number>;
}

export interface StatsStore {
  kind: 'memory' | 'redis';
  /** The answering instance can use it, as the calls of the last moment found. */
  reachable: boolean;
}

export interface StatsUse {
  /** The most used ones, at most 200, the most used first. */
  directions: DirectionUse[];
  /** Jobs of all other directions. */
  other: number;
  total: number;
}

export interface StoreLatency {
  p50_ms: number;
  p99_ms: number;
  max_ms: number;
  calls: number;
}

export interface StoreServer {
  address: string;
  role: 'primary' | 'replica';
  /** The slots of a primary of a cluster, such as 0-5460. */
  slots?: string;
  /** It answers, and a replica is connected to its primary. */
  healthy: boolean;
  /** This and the fields below are absent if it did not answer. Replicas that are not part of a cluster are not asked: their primary says how far they are behind. */
  version?: string;
  used_memory_bytes?: number;
  /** Absent: it has no limit. */
  max_memory_bytes?: number;
  /** What it does when its memory is full; noeviction is required. */
  policy?: string;
  /** How far a replica is behind its primary. */
  lag_bytes?: number;
  ping_ms?: number;
  uptime_seconds?: number;
  clients?: number;
}

export interface StoreStatus {
  kind: 'memory' | 'redis';
  /** How Redis is deployed. Absent for memory. */
  mode?: 'standalone' | 'sentinel' | 'cluster';
  /** The answering instance can use it. While it cannot, every dispatch is refused. */
  reachable: boolean;
  /** Why it cannot, as /readyz says. */
  problem?: string;
  /** When the servers were asked, in Unix milliseconds. They are asked at most every 5 s, and only while somebody wants to know. Absent for memory. */
  checked_ms?: number;
  /** Of the calls of the answering instance in the last minute. Absent: there were none. */
  latency?: StoreLatency;
  /** The servers, by address. Absent for memory. */
  servers?: StoreServer[];
  generated_ms: number;
}

export interface TenantInfo {
  /** Absent for callers without a tenant, who are one together. */
  tenant_id?: string;
  /** The configuration of the answering instance has an entry for this tenant. The others have that of "*", if there is one. */
  configured: boolean;
  /** Its share of the slots for which tenants wait, relative to the weights of the others. */
  weight: number;
  /** Its jobs that have not ended. Without a limit of jobs it is what the instances count, each for itself. */
  in_flight: TenantUse;
  /** Its sessions that have not ended. Without a limit it is what the instances count, each for itself. */
  sessions: TenantUse;
  /** The rate at which its jobs may begin, a second. Absent: there is no limit. */
  dispatches?: TenantRate;
  /** The seconds of audio that its utterances may have, a minute. Absent: there is no limit. */
  audio_seconds?: TenantRate;
  /** How often each limit has refused a job or a session since the instances started. A request that waits is counted each time that it tries. */
  refusals: Record<string, number>;
}

export interface TenantList {
  /** Ordered by tenant_id: the tenants that have limits or a weight of their own, and those of which an instance has jobs or sessions, or refused some since it started. */
  tenants: TenantInfo[];
  /** Names the next page; absent on the last one. */
  next_cursor?: string;
  /** An instance could not be asked, or did not answer. */
  partial?: boolean;
}

export interface TenantRate {
  /** How much is refilled in the time that the limit is for. */
  limit: number;
  /** How much may be used now. Audio may be negative: utterances are refused until it is not. */
  left: number;
}

export interface TenantUse {
  used: number;
  /** The limit. Absent: there is none. */
  max?: number;
}

export interface VersionResponse {
  version: string;
  commit?: string;
  go: string;
}

export interface WaitingClass {
  /** Empty: requests that are bound to no capability pool. */
  pool_id: string;
  /** Identifies the class: requests that the same nodes can serve. */
  class_id: string;
  /** Absent: an instance of a newer version has put the requests into the queue, and this one does not understand what they require. */
  src_lang?: string;
  tgt_lang?: string;
  /** What they require of a node besides its direction, such as tts(es), service(asr-large), model(m), feature(f), region(eu), node(gpu-1), not_node(gpu-2), or tenant(acme), which has nodes of its own. */
  requires: string[];
  waiting: number;
  /** Since when the one waits that has waited longest. */
  oldest_ms: number;
  /** The mean time between two slots that were granted to the class. Absent: too few were, or the caller is of one tenant. */
  interval_ms?: number;
}

export interface WaitingList {
  /** The time of the store, by which the other times are to be judged. All are Unix milliseconds. */
  now_ms: number;
  /** How many requests wait, of those that match. */
  total: number;
  /** Those that have waited longest first. Of more than 1000 requests of one tenant and class only the first ones of their line are considered. */
  requests: WaitingRequest[];
  /** The matching requests by the pool in whose queue they wait, as the next two lists the most first. */
  pools: WaitingPool[];
  /** The matching requests by class. */
  classes: WaitingClass[];
  /** The matching requests by pool and tenant. */
  tenants: WaitingTenant[];
  /** One of the lists has more entries than limit allows. */
  truncated: boolean;
}

export interface WaitingPool {
  /** Empty: requests that are bound to no capability pool. */
  pool_id: string;
  waiting: number;
  /** Since when the one waits that has waited longest. */
  oldest_ms: number;
}

export interface WaitingRequest {
  job_id: string;
  tenant_id?: string;
  /** The capability pool to which its tenant is bound. Absent: it is bound to none. */
  pool_id?: string;
  /** Identifies the class: requests that the same nodes can serve. */
  class_id: string;
  /** Absent: an instance of a newer version has put the requests into the queue, and this one does not understand what they require. */
  src_lang?: string;
  tgt_lang?: string;
  /** What they require of a node besides its direction, such as tts(es), service(asr-large), model(m), feature(f), region(eu), node(gpu-1), not_node(gpu-2), or tenant(acme), which has nodes of its own. */
  requires: string[];
  /** When it began to wait. */
  since_ms: number;
  /** When it gives up. */
  deadline_ms: number;
  /** Its place in the line of its tenant and class. The first one has 1. */
  place: number;
  /** How much longer it will probably wait. Absent: too few slots were granted to its class to know. */
  estimate_ms?: number;
  /** The incarnation of the instance that has the request. */
  instance: string;
}

export interface WaitingShare {
  /** How many of these slots it was granted. */
  granted: number;
  /** How many were its part by the weights of those who waited. It may be granted less if it got other slots for which nobody else waited. */
  entitled: number;
  /** Over how long that was counted, a minute at most. 0: since the tenant began to wait, because the answering instance has not observed it before. */
  window_ms: number;
}

export interface WaitingTenant {
  /** Empty: requests that are bound to no capability pool. */
  pool_id: string;
  /** Absent for callers without a tenant, who are one together. */
  tenant_id?: string;
  waiting: number;
  /** Since when the one waits that has waited longest. */
  oldest_ms: number;
  weight: number;
  /** Absent for callers of one tenant: it would tell them about the others. */
  share?: WaitingShare;
}

export interface WithoutPool {
  nodes: PoolNodes;
  /** Some of them, at most 5. */
  examples: NodeWithoutPool[];
}
