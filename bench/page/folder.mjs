// A page that was built apart from the program.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Answers requests for the page from a folder, with the headers of the server. */
export async function servePage(context, page, base, folder) {
  const answer = await fetch(`${base}/`);
  const policy = ['content-security-policy', 'x-content-type-options'].map((name) => ({ name, value: answer.headers.get(name) ?? '' }));
  const kinds = { html: 'text/html', js: 'text/javascript', css: 'text/css', svg: 'image/svg+xml' };
  const devtools = await context.newCDPSession(page);
  devtools.on('Fetch.requestPaused', ({ requestId, request }) => {
    const path = new URL(request.url).pathname.replace(/\/$/, '/index.html');
    const body = readFileSync(join(folder, path)).toString('base64');
    const type = { name: 'content-type', value: kinds[path.split('.').pop()] };
    void devtools.send('Fetch.fulfillRequest', { requestId, responseCode: 200, responseHeaders: [type, ...policy], body });
  });
  await devtools.send('Fetch.enable', { patterns: [{ urlPattern: `${base}/` }, { urlPattern: `${base}/assets/*` }] });
}
