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

class Router {
  current = $state.raw<Location>(parse(''));

  constructor() {
    this.read();
    window.addEventListener('hashchange', () => {
      this.read();
    });
  }

  private read(): void {
    this.current = parse(window.location.hash);
  }

  go(parts: readonly string[], query: Record<string, string | undefined> = {}): void {
    window.location.hash = href(parts, query);
  }

  /** replace goes to a page instead of the current one, so that "back" does not return to it. */
  replace(parts: readonly string[], query: Record<string, string | undefined> = {}): void {
    window.history.replaceState(null, '', href(parts, query));
    this.read();
  }

  /** change changes some filters of the current page. It replaces the entry of the history, so that "back" leaves the page. */
  change(query: Record<string, string | undefined>): void {
    const next: Record<string, string | undefined> = { ...Object.fromEntries(this.current.query), ...query };
    this.replace(this.current.parts, next);
  }
}

export const router = new Router();
