import { api } from './api';
import type { DrainEffect } from './wire';

/**
 * readEffect reads what the drain of a node would leave. It is a GET: an older instance answers that there is no such path, where a drain with
 * dry_run would drain the node.
 */
export function readEffect(id: string): Promise<DrainEffect> {
  return api.get<DrainEffect>('v1/nodes/' + encodeURIComponent(id) + '/drain_effect');
}
