import js from '@eslint/js';
import svelte from 'eslint-plugin-svelte';
import globals from 'globals';
import ts from 'typescript-eslint';

import svelteConfig from './svelte.config.js';

export default ts.config(
  { ignores: ['dist/', 'node_modules/'] },
  js.configs.recommended,
  ...ts.configs.strict,
  ...svelte.configs.recommended,
  { languageOptions: { globals: { ...globals.browser, ...globals.node } } },
  {
    files: ['**/*.svelte', '**/*.svelte.ts'],
    languageOptions: { parserOptions: { extraFileExtensions: ['.svelte'], parser: ts.parser, svelteConfig } },
  },
  { rules: { 'svelte/no-at-html-tags': 'error', 'no-console': 'error' } },
  // Programs that print what they found.
  { files: ['browser/*.mjs'], rules: { 'no-console': 'off' } },
  // What these hold is not shown, or is replaced as a whole and never changed.
  {
    files: ['src/lib/router.svelte.ts', 'src/lib/rows.svelte.ts'],
    rules: { 'svelte/prefer-svelte-reactivity': 'off' },
  },
);
