/** The page that is shown and its filters are in the fragment of the URL: #/nodes?state=ready. It works below any path. */
export interface Location {
  /** The parts of the path, decoded: ["nodes", "gpu-1"]. */
  parts: string[];
  query: URLSearchParams;
}

export function parse(hash: string): Location {
  const text = hash.replace(/^#\/?/, '');
  const mark = text.indexOf('?');
  const path = mark < 0 ? text : text.slice(0, mark);
  return {
    parts: path.split('/').filter(Boolean).map(decode),
    query: new URLSearchParams(mark < 0 ? '' : text.slice(mark + 1)),
  };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // a fragment that somebody has typed
  }
}

/** href returns the fragment of a page. Empty values of the query are left out. */
export function href(parts: readonly string[], query: Record<string, string | undefined> = {}): string {
  const pairs = Object.entries(query).filter((pair): pair is [string, string] => !!pair[1]);
  const search = new URLSearchParams(pairs).toString();
  return '#/' + parts.map(encodeURIComponent).join('/') + (search ? '?' + search : '');
}

/** Entry is what the history keeps about a page: each visit has its own number, which "back" returns to. */
interface Entry {
  visit?: number;
}

class Router {
  current = $state.raw<Location>(parse(''));
  /** The visit that is shown. It is the same again after "back", and another one after a link to the same page. */
  visit = 0;
  /** The visit is one of before. */
  returned = false;
  #lists: Record<string, string> = Object.create(null) as Record<string, string>;

  constructor() {
    this.read();
    window.addEventListener('hashchange', () => {
      this.read();
    });
  }

  private read(): void {
    const entry = window.history.state as Entry | null;
    this.returned = entry?.visit !== undefined;
    if (entry?.visit === undefined) {
      this.visit = Date.now() + Math.random(); // a page that is loaded again does not take the visits of before for its own
      window.history.replaceState({ visit: this.visit } satisfies Entry, '');
    } else this.visit = entry.visit;
    this.current = parse(window.location.hash);
    const [page, id] = this.current.parts;
    if (page !== undefined && id === undefined) this.#lists[page] = window.location.hash;
  }

  /** list returns the fragment of the list of a page, with the filters with which it was seen last. */
  list(page: string): string {
    return this.#lists[page] ?? href([page]);
  }

  go(parts: readonly string[], query: Record<string, string | undefined> = {}): void {
    window.location.hash = href(parts, query);
  }

  /** replace goes to a page instead of the current one, so that "back" does not return to it. */
  replace(parts: readonly string[], query: Record<string, string | undefined> = {}): void {
    window.history.replaceState(window.history.state, '', href(parts, query));
    this.read();
  }

  /** change changes some filters of the current page. It replaces the entry of the history, so that "back" leaves the page. */
  change(query: Record<string, string | undefined>): void {
    const next: Record<string, string | undefined> = { ...Object.fromEntries(this.current.query), ...query };
    this.replace(this.current.parts, next);
  }

  /** changer returns change for the page that is shown now. On any other page it does nothing: a field may report a change as it goes. */
  changer(): (query: Record<string, string | undefined>) => void {
    const page = href(this.current.parts);
    return (query) => {
      if (href(this.current.parts) === page) this.change(query);
    };
  }
}

export const router = new Router();
