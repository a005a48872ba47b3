// What a model, a tool or a file says runs nothing and sends nothing.

import http from 'node:http';
import { ask, assert, base, ended, finish, runCode, signedIn, takeComplaints } from './browser.mjs';

const heard = [];
const listener = http.createServer((request, response) => {
  heard.push(request.url);
  response.end('heard');
});
// Even a connection without a request tells somebody that the file was opened.
listener.on('connection', () => heard.push('connection'));
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

// Files with hostile names and contents, in every form of the preview. Pages are shown as their source.
const pageOf = (from) => `<!doctype html>
<meta http-equiv="refresh" content="0;url=${from}/refresh">
<link rel="preconnect" href="${from}"><link rel="dns-prefetch" href="${from}"><link rel="prefetch" href="${from}/prefetch">
<link rel="stylesheet" href="${from}/css"><link rel="icon" href="${from}/icon"><base href="${from}/">
<style>@import url(${from}/import); @font-face { font-family: x; src: url(${from}/font) } body { font-family: x; background: url(${from}/background) }</style>
<h1>Displayed</h1><p id="state">untouched</p>
<img src="${from}/picture"><img srcset="${from}/set"><video src="${from}/video" autoplay></video><audio src="${from}/audio"></audio>
<object data="${from}/object"></object><embed src="${from}/embed"><iframe src="${from}/inner"></iframe>
<svg><image href="${from}/svg-image" /></svg><input type="image" src="${from}/input">
<form action="${from}/form"><button id="send">Send</button></form><a id="go" href="${from}/go">Go</a><a id="top" target="_top" href="${from}/top">Top</a>
<script>document.getElementById('state').textContent = 'touched'; fetch('${from}/fetched'); location = '${from}/moved'; open('${from}/popup'); top.location = '${from}/top-moved'</script>`;
const hostileName = '<img src=x onerror=alert(1)>';
await runCode(page, `
import json, os
name = ${JSON.stringify(hostileName)}
page = ${JSON.stringify(pageOf(address))}
text = ${JSON.stringify(attacks(address))}
os.makedirs('/workspace/' + name, exist_ok=True)
for ending, content in {'html': page, 'svg': '<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><script>alert(1)</script><image href="${address}/svg"/></svg>',
                        'md': text, 'csv': 'a,b\\n"' + text.replace('"', '""') + '",' + name, 'json': json.dumps([{name: text}]), 'txt': page}.items():
    open('/workspace/' + name + '/' + name + '.' + ending, 'w').write(content)
    open('/artifacts/' + name + '.' + ending, 'w').write(content)
`);
const panel = page.getByRole('region', { name: 'File', exact: true });
for (const [kind, folder] of [['workspace', `${hostileName}/`], ['artifacts', '']]) {
  for (const [ending, shown] of [
    ['svg', () => panel.getByRole('img')],
    ['md', () => panel.getByText('click', { exact: true })],
    ['csv', () => panel.getByRole('cell', { name: hostileName, exact: true })],
    ['json', () => panel.getByRole('columnheader', { name: hostileName })],
    ['txt', () => panel.getByText('untouched')],
    ['html', () => panel.getByText('Displayed')],
  ]) {
    await page.goto(`${base}/#/files/${kind}/${encodeURIComponent(`${folder}${hostileName}.${ending}`)}`);
    await shown().first().waitFor();
    const inside = await page.evaluate(() => ({
      harmed: document.documentElement.dataset.harmed ?? null,
      elements: [...document.querySelectorAll('script, style, iframe, object, embed, base, [onerror], [onload]')]
        .filter((element) => element.getAttribute('type') !== 'module')
        .map((element) => element.outerHTML),
      images: [...document.images].map((image) => new URL(image.src).origin),
    }));
    assert.deepEqual(inside, { harmed: null, elements: [], images: ending === 'svg' ? [base] : [] });
  }
}
assert.deepEqual(heard, []);
assert.deepEqual(takeComplaints(), []);
await page.goto(`${base}/#/`);

// Controls: a page without a policy runs the same text, and this one could not even if it tried.
const control = await browser.newContext();
const victim = await control.newPage();
await victim.setContent(attacks(address));
await victim.waitForFunction(() => document.images.length > 0);
await new Promise((done) => {
  const look = setInterval(() => {
    if (heard.includes('/img') && heard.includes('/frame') && heard.includes('connection')) {
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
