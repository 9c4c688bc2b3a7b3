/** What a person has chosen, remembered in this browser. It holds nothing secret. */
const choices = {
  theme: ['system', 'light', 'dark'],
  lang: ['en', 'zh'],
  time: ['relative', 'local', 'utc'],
} as const;

export type Theme = (typeof choices.theme)[number];
export type UiLang = (typeof choices.lang)[number];
export type TimeMode = (typeof choices.time)[number];

function stored<T extends string>(name: string, allowed: readonly T[], otherwise: T): T {
  try {
    const value = window.localStorage.getItem('lingua.' + name);
    return allowed.find((a) => a === value) ?? otherwise;
  } catch {
    return otherwise; // the browser refuses storage
  }
}

function store(name: string, value: string): void {
  try {
    window.localStorage.setItem('lingua.' + name, value);
  } catch {
    // The choice holds until the page is closed.
  }
}

class Preferences {
  #theme = $state<Theme>(stored('theme', choices.theme, 'system'));
  #lang = $state<UiLang>(
    stored('lang', choices.lang, window.navigator.language.toLowerCase().startsWith('zh') ? 'zh' : 'en'),
  );
  #time = $state<TimeMode>(stored('time', choices.time, 'relative'));
  #paused = $state(false);
  #resumed = new Set<() => void>();

  /** While updates are paused, nothing on the page changes by itself. */
  get paused(): boolean {
    return this.#paused;
  }
  set paused(value: boolean) {
    const ends = this.#paused && !value;
    this.#paused = value;
    if (ends) for (const fn of [...this.#resumed]) fn();
  }

  /** onresume calls a function whenever a pause has ended, until what it returns is called. */
  onresume(fn: () => void): () => void {
    this.#resumed.add(fn);
    return () => this.#resumed.delete(fn);
  }

  get theme(): Theme {
    return this.#theme;
  }
  set theme(value: Theme) {
    this.#theme = value;
    store('theme', value);
  }
  get lang(): UiLang {
    return this.#lang;
  }
  set lang(value: UiLang) {
    this.#lang = value;
    store('lang', value);
  }
  get time(): TimeMode {
    return this.#time;
  }
  set time(value: TimeMode) {
    this.#time = value;
    store('time', value);
  }
}

export const preferences = new Preferences();
export const themes = choices.theme;
export const uiLangs = choices.lang;
export const timeModes = choices.time;
