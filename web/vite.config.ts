import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';

// The licences of the packages that the page contains. Like those of all files, the name changes with the content, which
// follows from the lock file.
const lock = createHash('sha256').update(readFileSync('package-lock.json')).digest('hex').slice(0, 8);
const licences = `assets/licences-${lock}.md`;

export default defineConfig({
  plugins: [svelte()],
  define: { __LICENCES__: JSON.stringify(`/${licences}`) },
  build: {
    license: { fileName: licences },
    target: 'es2022',
    modulePreload: { polyfill: false },
    // The policy of the page allows nothing from `data:` addresses but images.
    assetsInlineLimit: 0,
    reportCompressedSize: false,
  },
});
