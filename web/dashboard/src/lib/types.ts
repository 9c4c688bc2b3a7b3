/** The answers of the API that the dashboard uses, as /openapi.yaml describes them. */
export interface ClusterPoint {
  at_ms: number;
  span_ms: number;
  done: number;
  failed: number;
  cancelled: number;
  refused: number;
  waiting: number;
  jobs_in_flight: number;
  sessions: number;
  instances: number;
  ready: number;
  degraded: number;
  draining: number;
  ejected: number;
  disconnected: number;
  offline: number;
  slots: number;
  dispatch_p50_ms?: number;
  dispatch_p95_ms?: number;
}

export interface FleetEvent {
  id: string;
  at_ms: number;
  kind: string;
  node_id?: string;
  instance?: string;
  jobs?: number;
  detail?: string;
}

export interface Page {
  next_cursor?: string;
  truncated?: boolean;
}
