import { preferences, type UiLang } from '../preferences.svelte';
import { en, type Catalogue, type Key } from './en';
import { zh } from './zh';

export const catalogues: Record<UiLang, Catalogue> = { en, zh };
export type { Key };

/** t returns a text in the chosen language, with its values filled in. */
export function t(key: Key, values: Record<string, string | number> = {}): string {
  return catalogues[preferences.lang][key].replace(/\{(\w+)\}/g, (whole, name: string) => {
    const value = values[name];
    return value === undefined ? whole : String(value);
  });
}

const names = Object.create(null) as Record<string, string>; // of languages, by their tags

/** languageName returns a language by its own name, such as 中文 for zh. */
export function languageName(tag: string): string {
  return (names[tag] ??= ownName(tag));
}

function ownName(tag: string): string {
  try {
    return new Intl.DisplayNames([tag], { type: 'language', fallback: 'code' }).of(tag) ?? tag;
  } catch {
    return tag; // a private tag
  }
}
