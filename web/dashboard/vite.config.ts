import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vitest/config';

// All URLs of the page are relative, so that it works below any prefix.
export default defineConfig({
  base: './',
  plugins: [svelte()],
  build: {
    outDir: 'dist',
    emptyOutDir: true,
    target: 'es2023',
    assetsInlineLimit: 0, // the content security policy of the page allows no data: URLs
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  resolve: process.env['VITEST'] ? { conditions: ['browser'] } : {},
  // The files share one environment, and restore what they change in it: a new one for each file takes most of the time.
  test: { environment: 'happy-dom', isolate: false, include: ['src/**/*.test.ts'] },
});
