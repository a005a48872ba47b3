import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';

// During development, `npm run dev` passes requests on to a server that is running already.
const server = process.env.CORACLE_SERVER ?? 'http://127.0.0.1:8989';

export default defineConfig({
  plugins: [svelte()],
  build: {
    target: 'es2022',
    modulePreload: { polyfill: false },
    // The policy of the page allows nothing from `data:` addresses but images.
    assetsInlineLimit: 0,
    reportCompressedSize: false,
  },
  server: { proxy: { '/api': server, '/v1': server, '/sign-in': server, '/auth': server } },
});
