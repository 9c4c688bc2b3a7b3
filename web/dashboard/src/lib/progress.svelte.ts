import { getContext, setContext } from 'svelte';

const key = Symbol('progress');
const patience = 1500; // ms, after which a part that is not read yet holds nothing back

/**
 * Progress is how far a page is read. A part is shown when all parts above it are, because it would move when they get their rows: what
 * somebody already reads stays where it is.
 */
export class Progress {
  #parts = $state.raw<(() => boolean)[]>([]); // whether each is read, from the top of the page
  #over = $state(false);

  /** start begins the time that a part may take. */
  start(): () => void {
    const timer = setTimeout(() => (this.#over = true), patience);
    return () => {
      clearTimeout(timer);
    };
  }

  /** add adds the next part of the page, and returns whether all parts above it are read. */
  add(read: () => boolean): () => boolean {
    const above = [...this.#parts];
    this.#parts = [...this.#parts, read];
    return () => this.#over || above.every((part) => part());
  }
}

/** startProgress begins a page, whose own content is its first part. */
export function startProgress(read: () => boolean): Progress {
  const progress = new Progress();
  progress.add(read);
  setContext(key, progress);
  return progress;
}

/** addPart adds a part to the page, and returns whether it can be shown. */
export function addPart(read: () => boolean): () => boolean {
  return getContext<Progress | undefined>(key)?.add(read) ?? (() => true);
}
