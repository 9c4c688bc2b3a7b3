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
