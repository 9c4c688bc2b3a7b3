import { getContext, setContext } from 'svelte';
import { SvelteMap } from 'svelte/reactivity';

const key = Symbol('problems');

/** Problems has the error messages of a page: several parts that could not be read for the same reason say it once. */
export class Problems {
  #last = 0;
  #messages = new SvelteMap<number, string>(); // by the place on the page

  /** place returns the place of another part of the page. */
  place(): number {
    return ++this.#last;
  }

  report(place: number, message: string): void {
    if (message === '') this.#messages.delete(place);
    else if (this.#messages.get(place) !== message) this.#messages.set(place, message);
  }

  /** repeats reports whether an earlier part of the page has the same message. */
  repeats(place: number, message: string): boolean {
    for (const [other, text] of this.#messages) if (other < place && text === message) return true;
    return false;
  }
}

/** startProblems begins a page, whose parts share their messages. */
export function startProblems(): void {
  setContext(key, new Problems());
}

export function pageProblems(): Problems {
  return getContext<Problems | undefined>(key) ?? new Problems();
}
