import { url } from './api';

/** startNode returns the command that starts a simulated node for this scheduler. */
export function startNode(langs = 'en,zh'): string {
  return `lingua node --sim --server ${url('').href.replace(/\/$/, '')} --langs ${langs}`;
}
