import type { Stage } from './sessions';
import type { Caller, Direction, Instance, Pool, SessionInfo } from './wire';

/** Answers that the server is going to have. */
export interface NodeRow {
  node_id: string;
  state: 'ready' | 'degraded' | 'draining' | 'ejected' | 'disconnected' | 'offline';
  slots: number;
  used: number;
  region?: string;
  zone?: string;
  tenant_id?: string;
  pool_id?: string;
  langs: string[];
  more_langs?: number;
  services: number;
  load?: number;
  last_heartbeat_ms: number;
  done_5m?: number;
  failed_5m?: number;
  incarnation?: string;
}
export interface NodeTable {
  generated_ms: number;
  age_ms: number;
  total: number;
  matches: number;
  offset: number;
  states: Record<string, number>;
  rows: NodeRow[];
}
export interface DrainEffect {
  in_flight: number;
  slots: number;
  share_of_slots: number;
  none: { src_lang: string; tgt_lang: string }[];
  one: { src_lang: string; tgt_lang: string }[];
  truncated: boolean;
}
export interface ProbeResult {
  node_id: string;
  ok: boolean;
  job_id: string;
  state: string;
  reason?: string;
  detail?: string;
  src_lang: string;
  tgt_lang: string;
  started_ms: number;
  reserve_ms?: number;
  deliver_ms?: number;
  ack_ms?: number;
  result_ms?: number;
  total_ms: number;
  result_withheld?: boolean;
}

/** What GET /v1/sessions is going to say about a session. */
export interface SessionRow extends SessionInfo {
  /** The address of the client. */
  remote?: string;
  reconnects?: number;
  /** An utterance is being received now. */
  speaking?: boolean;
  last_result_lag_ms?: number;
  lag_p95_ms?: number;
  /** The lag of the last result, by stage. */
  lag_stages_ms?: Partial<Record<Stage, number>>;
  last_active_ms?: number;
}

export interface SessionRows {
  sessions: SessionRow[];
  next_cursor?: string;
  partial?: boolean;
}

/** What GET /v1/instances is going to say about an instance. */
export interface InstanceRow extends Instance {
  takeovers?: number;
}

/** What GET /v1/directions is going to say about a direction. */
export interface DirectionRow extends Direction {
  free?: number;
  jobs_5m?: number;
  refused_5m?: number;
  wait_p95_ms?: number;
  waiting?: number;
}

export interface StoreLatency {
  p50_ms?: number;
  p99_ms?: number;
  max_ms?: number;
  calls: number;
}

export interface StoreServer {
  address: string;
  role: string;
  slots?: string;
  healthy: boolean;
  version?: string;
  used_memory_bytes?: number;
  max_memory_bytes?: number;
  policy?: string;
  lag_bytes?: number;
  ping_ms?: number;
  uptime_seconds?: number;
  clients?: number;
}

/** The answer of GET /v1/store. */
export interface StoreStatus {
  kind: 'redis' | 'memory';
  mode?: string;
  reachable: boolean;
  checked_ms?: number;
  latency?: StoreLatency;
  servers?: StoreServer[];
  generated_ms?: number;
}

export interface ConfigSetting {
  section: string;
  key: string;
  value: string;
  /** It has its default value. */
  default: boolean;
  /** The value may be a secret and is not shown. */
  hidden?: boolean;
  /** A reload puts another value in force. */
  reload: boolean;
  doc: string;
}

export interface ConfigKey {
  name: string;
  role: string;
  tenant_id?: string;
  nodes?: string;
  pool_id?: string;
  max_nodes?: number;
  secrets?: number;
  not_before_ms?: number;
  not_after_ms?: number;
  /** Why the key is refused now. */
  refused?: string;
}

export interface ConfigSigner {
  kid: string;
  use?: string;
  algorithm?: string;
}

/** The answer of GET /v1/config. */
export interface ConfigView {
  file?: string;
  loaded_ms: number;
  instance: string;
  needs_restart?: string[];
  settings: ConfigSetting[];
  keys: ConfigKey[];
  signers: ConfigSigner[];
}

/** What GET /v1/caller is going to say. */
export interface CallerInfo extends Caller {
  links?: { name: string; url: string }[];
  version?: string;
  instance?: string;
  multi_tenant?: boolean;
}

/** The answer of POST /v1/jobs/cancel. */
export interface BulkCancelled {
  matches: number;
  truncated?: boolean;
  /** No job that matched was created then or later. */
  until_ms?: number;
  cancelled?: number;
  already_ended?: number;
  failed?: number;
  remaining?: number;
}

/** What GET /api/v1/phase3/pools is going to say about a pool. */
export interface PoolRow extends Pool {
  /** Requests that wait for a slot of the pool. */
  waiting?: number;
}
