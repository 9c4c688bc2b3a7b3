import type { ConfigSetting } from './wire';

/** Group is the settings of one table of the configuration. */
export interface Group {
  section: string;
  settings: ConfigSetting[];
}

/** groupSettings returns the settings that match, by their tables, in the order of the reference. */
export function groupSettings(settings: ConfigSetting[], search: string, changed: boolean): Group[] {
  const text = search.toLowerCase();
  const groups: Group[] = [];
  for (const s of settings) {
    if (changed && s.default) continue;
    const name = (s.section === '' ? s.key : s.section + '.' + s.key).toLowerCase();
    if (text !== '' && !name.includes(text) && !s.doc.toLowerCase().includes(text)) continue;
    let group = groups.find((g) => g.section === s.section);
    if (!group) {
      group = { section: s.section, settings: [] };
      groups.push(group);
    }
    group.settings.push(s);
  }
  return groups;
}

/** safeLinks returns the links that lead to web pages. */
export function safeLinks(links: { name: string; url: string }[] | undefined): { name: string; url: string }[] {
  return (links ?? []).filter((l) => /^https?:\/\//i.test(l.url));
}

const pagesOf: Record<string, string> = { node: 'nodes', job: 'jobs', session: 'sessions' };

/** objectPath returns the page of what an entry of the audit log is about; undefined: it has none. */
export function objectPath(object: string): [page: string, id: string] | undefined {
  const mark = object.indexOf('/');
  const kind = object.slice(0, Math.max(0, mark));
  const page = Object.hasOwn(pagesOf, kind) ? pagesOf[kind] : undefined;
  const id = object.slice(mark + 1);
  return page !== undefined && id !== '' ? [page, id] : undefined;
}
