import { preferences, type UiLang } from '../preferences.svelte';
import { en, type Catalogue, type Key } from './en';
import { singular } from './en/singular';
import { zh } from './zh';

export const catalogues: Record<UiLang, Catalogue> = { en, zh };
export type { Key };

/** The texts for a count of one, where they differ. */
const singulars: Record<UiLang, Partial<Record<Key, string>>> = { en: singular, zh: {} };
const plurals: Record<UiLang, Intl.PluralRules> = { en: new Intl.PluralRules('en'), zh: new Intl.PluralRules('zh') };

type Values = Record<string, string | number>;

/** t returns a text in the chosen language, with its values filled in. The first value of a text decides whether it is of one or of many. */
export function t(key: Key, values: Values = {}): string {
  const { lang } = preferences;
  const many = catalogues[lang][key];
  const one = singulars[lang][key];
  const text = one !== undefined && plurals[lang].select(countIn(many, values)) === 'one' ? one : many;
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => {
    const value = values[name];
    return value === undefined ? whole : String(value);
  });
}

/** countIn returns the first value of a text as a number, which may be formatted with grouping. */
function countIn(text: string, values: Values): number {
  const name = /\{(\w+)\}/.exec(text)?.[1] ?? '';
  return Number(String(values[name] ?? '').replaceAll(',', '') || Number.NaN);
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
