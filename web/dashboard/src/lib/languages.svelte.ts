import { api, ApiError } from './api';
import { languageName } from './i18n/index.svelte';
import type { DirectionList } from './wire';

/** The languages of the fleet, for the choices of filters. They are read once. */
class Languages {
  #tags = $state.raw<string[]>([]);
  #asked = false;

  /** load reads the languages unless they were read before. Without them a filter offers what is in the URL. */
  async load(): Promise<void> {
    if (this.#asked) return;
    this.#asked = true;
    try {
      const list = await api.get<DirectionList>('v1/directions', { limit: 1000 });
      this.#tags = [...new Set(list.directions.flatMap((d) => [d.src_lang, d.tgt_lang]))].sort();
    } catch (e) {
      if (!(e instanceof ApiError)) throw e;
      this.#asked = false;
    }
  }

  get options(): { value: string; text: string }[] {
    return this.#tags.map((tag) => ({ value: tag, text: languageName(tag) + ' (' + tag + ')' }));
  }
}

export const languages = new Languages();
