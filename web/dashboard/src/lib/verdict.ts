import { number } from './format';
import { t } from './i18n/index.svelte';
import { href } from './router.svelte';
import type { ClusterPoint, DirectionCoverage, Stats } from './wire';

/** Verdict says how the fleet is, and why: each part leads to the page that explains it. */
export interface Verdict {
  state: 'fine' | 'degraded' | 'down';
  /** What a part counts is the number of rows to which it leads; undefined: it leads to something else. */
  parts: { text: string; link: string; count?: number }[];
}

/** Away is what is away without which nothing is known of the fleet: every instance, or the store. */
export type Away = 'offline' | 'store';

/** verdictOf judges the fleet by what was read last; undefined: nothing was. */
export function verdictOf(
  stats: Stats | undefined,
  point: ClusterPoint | undefined,
  away: Away | undefined,
): Verdict | undefined {
  if (away) return { state: 'down', parts: [{ text: t(`verdict.away.${away}`), link: href(['instances']) }] };
  if (!stats) return undefined;
  const parts: Verdict['parts'] = [];
  const add = (count: number, text: string, link: string): void => {
    if (count > 0) parts.push({ text, link, count });
  };
  const { none, one } = stats.coverage;
  const nodes = stats.nodes;
  const waiting = point?.waiting ?? 0;
  add(none.length, covered('none', none), href(['languages'], { coverage: 'none' }));
  add(one.length, covered('one', one), href(['languages'], { coverage: 'one' }));
  add(waiting, t('verdict.waiting', { n: number(waiting) }), href(['waiting']));
  for (const state of ['ejected', 'disconnected', 'offline'] as const)
    add(nodes[state], t(`verdict.${state}`, { n: number(nodes[state]) }), href(['nodes'], { state }));
  const { absent, dead_letters: dead } = stats.instances;
  if (absent > 0) parts.push({ text: t('verdict.absent', { n: number(absent) }), link: href(['instances']) });
  add(dead, t('verdict.dead', { n: number(dead) }), href(['instances'], { part: 'dead-letters' }));
  if (nodes.ready === 0) {
    const nobody = { text: t('verdict.nobody'), link: href(['nodes']) };
    return { state: 'down', parts: [nobody, ...parts] };
  }
  return { state: parts.length > 0 ? 'degraded' : 'fine', parts };
}

/** covered names the first direction that has no node, or one, and says how many others have. */
function covered(kind: 'none' | 'one', directions: DirectionCoverage[]): string {
  const first = directions.at(0);
  const name = first ? `${first.src_lang}→${first.tgt_lang}` : '';
  if (directions.length < 2) return t(`verdict.${kind}`, { name });
  return t(`verdict.${kind}.more`, { name, n: number(directions.length - 1) });
}

/** verdictText is a verdict in one line, for the title of the window. */
export function verdictText(v: Verdict): string {
  return [t(`verdict.${v.state}`), v.parts.map((p) => p.text).join(' · ')].filter(Boolean).join(': ');
}
