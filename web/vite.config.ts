import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';

export default defineConfig({
  plugins: [svelte()],
  build: {
    target: 'es2022',
    modulePreload: { polyfill: false },
    // The policy of the page allows nothing from `data:` addresses but images.
    assetsInlineLimit: 0,
    reportCompressedSize: false,
  },
});
