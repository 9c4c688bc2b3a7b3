import { href } from './router.svelte';

/** What is refused because of the nodes of its direction. */
const ofDirections = new Set<string>([
  'NO_CAPABLE_NODE',
  'PREFERRED_NODE_NOT_CAPABLE',
  'ALL_CANDIDATES_FULL_OR_FAILED',
  'DEADLINE_EXCEEDED',
]);

/** refusalLink returns the page that shows where requests are refused with a code; undefined: no page does. */
export function refusalLink(code: string): string | undefined {
  if (code === 'SCHEDULER_DEPENDENCY_DOWN') return href(['instances']);
  if (!ofDirections.has(code)) return undefined;
  return href(['languages'], { view: 'list', coverage: 'problem', sort: 'refused', order: 'desc' });
}
