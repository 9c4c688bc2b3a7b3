import type { Key } from '.';

/** The English texts for a count of one. The first value of the text of the same key is the count. */
export const singular: Partial<Record<Key, string>> = {
  'configuration.reload.done': 'Reloaded: {count} change.',
  'configuration.revocations.count': '{count} revocation in force',
  'configuration.audit.count': 'The last entry',
  'jobs.count': '{count} job',
  'jobs.count.more': '{count} job read; more follow as you scroll',
  'jobs.waiting.title': '{count} request waits for a free slot.',
  'jobs.decision': '{count} node drawn',
  'jobs.bulk.confirm.count': 'Cancel {count} job',
  'jobs.bulk.matches': '{count} open job matches these filters now:',
  'jobs.bulk.matches.more': 'At least {count} open job matches these filters now:',
  'jobs.bulk.done': '{cancelled} job cancelled; {ended} had already ended, {failed} failed.',
  'languages.count': '{n} direction · {none} without a ready node · {one} with one',
  'languages.left': '{n} language with less demand is not shown. Choose a language, or the list.',
  'languages.direction.nodes.all': 'The node',
  'nodes.bulk.matches': '{n} node matches:',
  'nodes.bulk.drain.confirm': 'Drain {n} node',
  'nodes.bulk.resume.confirm': 'Resume {n} node',
  'nodes.bulk.drain.done': '{changed} node drained, {failed} failed.',
  'nodes.bulk.resume.done': '{changed} node resumed, {failed} failed.',
  'nodes.notice.times': 'Once.',
  'overview.nodes.all': 'the only one',
  'overview.sessions.note': '{jobs} job in flight',
  'overview.events.jobs': '{n} job moved',
};
