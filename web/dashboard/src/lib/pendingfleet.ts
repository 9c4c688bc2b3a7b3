import type { DrainEffect } from './pending';
import type { ClusterPoint, Event, Node } from './wire';

/** Answers about the fleet and its nodes that the server is going to have. */
export interface Quantiles {
  p50_ms: number;
  p95_ms: number;
  p99_ms: number;
}

/** The parts of the lag behind a speaker, in the order in which they follow each other. */
export const lagStages = ['segmentation', 'wait', 'dispatch', 'node', 'return'] as const;
export type LagStage = (typeof lagStages)[number];

export interface FleetPoint extends ClusterPoint {
  retries?: number;
  refusals?: Record<string, number>;
  used_slots?: number;
  lag?: Quantiles & { stages?: Partial<Record<LagStage, Quantiles>> };
}

export interface ServiceMark {
  service_id: string;
  version?: string;
  until_ms: number;
  reason?: string;
}

export interface NodeInfo extends Node {
  /** Failed attempts of the last hour, by reason. */
  failures?: Record<string, number>;
  /** Services that are marked as unavailable. */
  marks?: ServiceMark[];
  drain_effect?: DrainEffect;
}

/** An event about the coverage of a direction names it. */
export interface FleetEvent extends Event {
  src_lang?: string;
  tgt_lang?: string;
}

/** The answer of POST /v1/nodes/drain and /v1/nodes/resume. */
export interface BulkResult {
  matches: number;
  changed?: number;
  failed?: number;
  truncated?: boolean;
}
