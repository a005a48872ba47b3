// What a model, a tool or a file says runs nothing and sends nothing.

import http from 'node:http';
import { ask, assert, base, ended, finish, signedIn, takeComplaints } from './browser.mjs';

const heard = [];
const listener = http.createServer((request, response) => {
  heard.push(request.url);
  response.end('heard');
});
await new Promise((done) => listener.listen(0, '127.0.0.1', done));
const address = `http://127.0.0.1:${listener.address().port}`;

const { browser, context, page } = await signedIn();
await context.addInitScript(() => {
  window.alert = () => document.documentElement.setAttribute('data-harmed', 'alert');
});
await page.reload();

const attacks = (from) =>
  [
    `<script>fetch('${from}/script')</script>`,
    `<img src="${from}/img" onerror="alert(1)">`,
    `<iframe src="${from}/frame"></iframe>`,
    `<style>@import url(${from}/style);</style>`,
    `<svg onload="alert(1)"></svg>`,
    `![picture](${from}/markdown-image)`,
    `![local](/api/auth/me)`,
    `[click](javascript:alert(1))`,
    `[data](data:text/html,<script>alert(1)</script>)`,
    `[file](file:///etc/passwd)`,
    `<a href="javascript:alert(1)">raw</a>`,
    `[good](https://example.org/page)`,
    `&lt;script&gt;alert(1)&lt;/script&gt;`,
  ].join('\n\n');

// The title of the conversation is hostile too, and comes from the first message.
await ask(page, `<img src=x onerror=alert(1)> [script:echo] ${address}`);
await ended(page);
await ask(page, `[script:echo]\n\n${attacks(address)}`);
await page.getByText('click', { exact: true }).first().waitFor();
await ended(page);
await ask(page, 'Show hostile output');
await page.getByRole('link', { name: /^Download/ }).first().waitFor();
await page.getByRole('img', { name: /svg$/ }).evaluate((image) => image.decode());
await ended(page);
await page.reload();
await page.getByText('click', { exact: true }).first().waitFor();

const found = await page.evaluate(() => ({
  harmed: document.documentElement.dataset.harmed ?? null,
  elements: [...document.querySelectorAll('script, iframe, style, object, embed, base')]
    .filter((element) => element.getAttribute('type') !== 'module')
    .map((element) => element.outerHTML),
  images: [...document.images].map((image) => image.getAttribute('src')),
  links: [...document.querySelectorAll('main a[target=_blank]')].map((link) => [link.protocol, link.rel]),
  handlers: [...document.querySelectorAll('*')].flatMap((element) =>
    [...element.attributes].filter((attribute) => attribute.name.startsWith('on')).map((attribute) => attribute.name),
  ),
}));
assert.equal(found.harmed, null);
assert.deepEqual(found.elements, []);
assert.deepEqual(found.handlers, []);
assert.ok(found.images.every((source) => source.startsWith('/api/artifacts/')), found.images.join(' '));
assert.ok(found.links.some(([protocol, rel]) => protocol === 'https:' && rel === 'noopener noreferrer'));
assert.ok(found.links.every(([protocol]) => protocol === 'http:' || protocol === 'https:'), found.links.join(' '));
assert.deepEqual(heard, []);

// Controls: a page without a policy runs the same text, and this one could not even if it tried.
const control = await browser.newContext();
const victim = await control.newPage();
await victim.setContent(attacks(address));
await victim.waitForFunction(() => document.images.length > 0);
await new Promise((done) => {
  const look = setInterval(() => {
    if (heard.includes('/img') && heard.includes('/frame')) {
      clearInterval(look);
      done();
    }
  }, 20);
});
heard.length = 0;
assert.deepEqual(takeComplaints(), []);
const blocked = await page.evaluate(async (address) => {
  const outcomes = [];
  await fetch(`${address}/fetch`).catch(() => outcomes.push('fetch'));
  try {
    document.body.innerHTML = '<p>';
  } catch {
    outcomes.push('html');
  }
  const script = document.createElement('script');
  try {
    script.text = 'alert(1)';
    document.body.append(script);
  } catch {
    outcomes.push('script');
  }
  return outcomes;
}, address);
assert.deepEqual(blocked, ['fetch', 'html', 'script']);
assert.deepEqual(heard, []);
assert.ok(takeComplaints().length > 0, 'the browser says what it has blocked');
assert.ok(page.url().startsWith(base));
listener.close();
listener.closeAllConnections();
await finish();
