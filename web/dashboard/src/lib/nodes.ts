import type { Node, NodePoint, NodeRow } from './wire';

export type NodeState = NodeRow['state'];

/** The states of a node, in the order in which they are offered as filters. */
export const nodeStates: readonly NodeState[] = ['ready', 'degraded', 'draining', 'ejected', 'disconnected', 'offline'];

/** The filters of the node table. Acts on "all that match" have the same. */
export const nodeFilters = [
  'search',
  'state',
  'language',
  'src_lang',
  'tgt_lang',
  'region',
  'tenant_id',
  'service',
  'pool_id',
] as const;

/** stateOf returns the state of a node as the node table names it. */
export function stateOf(n: Node): NodeState {
  if (n.admission?.slots === 0) return 'ejected';
  if (!n.online || n.health === 'offline') return 'offline';
  if (n.disconnected) return 'disconnected';
  if (n.drained || n.health === 'draining') return 'draining';
  return n.health === 'ready' ? 'ready' : 'degraded';
}

/** Progress is how far the drain of a node is. */
export interface Progress {
  /** Slots in use when it began, as far as is known. */
  before: number;
  left: number;
}

/** drainProgress finds out from the series of a drained node how many of its jobs are left. */
export function drainProgress(points: readonly NodePoint[], left: number): Progress {
  let before = left;
  for (const p of points.toReversed()) {
    before = Math.max(before, p.used_slots ?? 0);
    if (p.state !== 'draining') break; // the last point before the drain
  }
  return { before, left };
}

/** pairsBySource groups pairs of languages by the first one. */
export function pairsBySource(pairs: readonly (readonly string[])[] | undefined): [src: string, tgt: string[]][] {
  const by = new Map<string, string[]>();
  for (const [src, tgt] of pairs ?? []) {
    if (src === undefined || tgt === undefined) continue;
    const targets = by.get(src);
    if (targets) targets.push(tgt);
    else by.set(src, [tgt]);
  }
  return [...by].sort((a, b) => a[0].localeCompare(b[0])).map(([src, tgt]) => [src, tgt.sort()]);
}
