// What a model, a tool or a file says runs nothing and sends nothing.

import { readFileSync } from 'node:fs';
import http from 'node:http';
import { ask, assert, base, ended, finish, runCode, signedIn, takeComplaints } from './browser.mjs';

/**
 * A server that notes connections and requests. Even a connection tells somebody that the file was opened, and so does a
 * look-up of its name. The browser notes all look-ups, also of names that do not exist and that it only prepares for.
 */
async function listen(name) {
  const heard = [];
  /** Content of pages by their path. */
  const pages = new Map();
  const server = http.createServer((request, response) => {
    heard.push(request.url);
    if (pages.has(request.url)) response.setHeader('content-type', 'text/html');
    response.end(pages.get(request.url) ?? 'heard');
  });
  server.on('connection', () => heard.push('connection'));
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  // Browsers know that names below `localhost` are this machine.
  const host = `${name}.localhost`;
  return { heard, pages, server, address: `http://${host}:${server.address().port}` };
}
// The first one must hear nothing until the end. The other one is for the control, which is heard.
const [silent, loud] = [await listen('silent'), await listen('loud')];
const { heard, address } = silent;

const log = `${process.env.HOME}/network.json`;
const { context, page } = await signedIn({ log });
for (const blank of context.pages()) if (blank !== page) await blank.close();
const requests = [];
context.on('request', (request) => requests.push(request.url()));
await context.addInitScript(() => {
  window.alert = () => document.documentElement.setAttribute('data-harmed', 'alert');
});
await page.reload();

/** The name of the server with this address. Hosts below `NAME.test` do not exist: only look-ups tell of them. */
const nameIn = (from) => /\/\/(\w+)\./.exec(from)[1];
const attacks = (from) =>
  [
    `![look](http://picture.${nameIn(from)}.test/) <link rel="dns-prefetch" href="//prefetched.${nameIn(from)}.test"><link rel="preconnect" href="http://preconnected.${nameIn(from)}.test">`,
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

// Files with hostile names and contents, in every form of the preview.
const styles = (from, name) => `
@import url(${from}/${name}-import); @import "${from}/${name}-import-text";
@font-face { font-family: x; src: url(${from}/${name}-font) } @namespace url(${from}/${name}-namespace);
@property --p { syntax: "<url>"; inherits: true; initial-value: url(${from}/${name}-property) }
@counter-style c { system: cyclic; symbols: url(${from}/${name}-counter) } @page { background: url(${from}/${name}-page) }
@keyframes k { from { background: url(${from}/${name}-frame) } to { list-style: url(${from}/${name}-frame-list) } }
:root { --a: url(${from}/${name}-variable); --b: u\\72l(${from}/${name}-escape); --c: 'url("#'; --d: '")' }
body { font-family: x; animation: k 1s infinite; background: url(${from}/${name}-background); cursor: url(${from}/${name}-cursor), auto }
h1 { background: var(--a); border-image: var(--b) 3; list-style: c } h1::before { content: url(${from}/${name}-content) }
p { --c: 'url("#'; background: var(--none, url(${from}/${name}-fallback)); --d: '")'; filter: url(${from}/${name}-filter#f); mask: var(--p) }
div { background: image-set("${from}/${name}-set" 1x); background: -webkit-image-set(url(${from}/${name}-webkit) 1x); background: URL( "${from}/${name}-upper" ) }
@media all { @supports (color: red) { @layer l { h1 { color: rgb(1, 2, 3); & span { background: url(${from}/${name}-nested) } } } } }
h1 { @media all { background: url(${from}/${name}-declarations) } }`;
/** What makes a page leave for another one. */
const leaving = (from) => ({
  refresh: `<meta http-equiv="refresh" content="0;url=${from}/refresh">`,
  script: `location = '${from}/moved'; open('${from}/popup'); top.location = '${from}/top-moved'`,
});
const pageOf = (from, { refresh, script } = leaving(from)) => `<!doctype html><html manifest="${from}/manifest"><head>
${refresh}<meta http-equiv="Link" content="<${from}>; rel=preconnect"><link rel="dns-prefetch" href="//prefetched.${nameIn(from)}.test">
<link rel="preconnect" href="http://preconnected.${nameIn(from)}.test"><img src="http://picture.${nameIn(from)}.test/"><base href="${from}/">
${['preconnect', 'dns-prefetch', 'prefetch', 'preload', 'modulepreload', 'prerender', 'stylesheet', 'icon', 'manifest', 'next', 'expect']
  .map((rel) => `<link rel="${rel}" as="image" href="${from}/${rel}">`)
  .join('')}
<script type="speculationrules">{"prerender": [{"urls": ["${from}/speculation"]}], "prefetch": [{"urls": ["${from}/speculation-2"]}]}</script>
<style>${styles(from, 'css')}</style><style>${styles('/own', 'own')}</style></head>
<body background="${from}/body" onload="alert(1)" style="background: url(${from}/body-style); --x: url(${from}/body-variable)">
<h1>Displayed <span>nested</span></h1><p id="state">untouched</p><div></div><img src="/own/picture"><img src="own/relative">
<img src="${from}/picture" onerror="alert(1)"><img srcset="${from}/set 1x"><img src="data:image/gif;base64,R0lGODlhAQABAAAAACw=" srcset="${from}/set-2 2x" usemap="#map">
<picture><source srcset="${from}/source"><img src="${from}/source-image"></picture><map name="map"><area href="${from}/area" shape="default"></map>
<video src="${from}/video" poster="${from}/poster" autoplay><track default src="${from}/track"></video><audio src="${from}/audio" autoplay></audio>
<object data="${from}/object"><img src="${from}/object-image"></object><embed src="${from}/embed"><iframe src="${from}/inner"></iframe>
<iframe srcdoc="&lt;img src='${from}/srcdoc'&gt;"></iframe><fencedframe src="${from}/fenced"></fencedframe><portal src="${from}/portal"></portal>
<svg onload="alert(1)"><image href="${from}/svg-image" /><use href="${from}/use#x" /><feImage href="${from}/fe-image" /><style>rect { fill: url(${from}/svg-style) }</style>
<foreignObject><iframe src="${from}/foreign"></iframe><img src="${from}/foreign-image"></foreignObject><rect fill="url(${from}/fill#x)" style="mask: url(${from}/mask#x)" filter="url(/own/filter#x)" />
<a href="${from}/svg-link"><text>svg</text></a><animate attributeName="href" to="${from}/animate" /><set attributeName="href" to="javascript:alert(1)" /><script href="${from}/svg-script"></script></svg>
<math href="javascript:alert(1)"><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=alert(1)&gt;"></table></mtext></math>
<template><img src="${from}/template"></template><section><template shadowrootmode="open"><img src="${from}/shadow"><iframe src="${from}/shadow-frame"></iframe></template></section>
<noscript><img src="${from}/noscript"><style>body { background: url(${from}/noscript-style) }</style></noscript>
<input type="image" src="${from}/input" autofocus onfocus="alert(1)"><details open ontoggle="alert(1)"><summary>more</summary></details>
<form action="${from}/form"><button id="send" formaction="${from}/formaction">Send</button><p>In a form</p></form><table background="${from}/table"><td background="${from}/cell">cell</td></table>
<a id="go" href="${from}/go" ping="${from}/ping">Go</a> <a href="${from}/top" target="_top">Top</a> <a href="javascript:alert(1)">Run</a> <a href="data:text/html,<script>alert(1)</script>">Data</a> <a href="/own/link" target="_blank">Own</a> <a href="#state">Place</a>
<script>document.getElementById('state').textContent = 'touched'; fetch('${from}/fetched'); ${script}</script>`;
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
    ['html', () => panel.frameLocator('iframe').getByRole('heading', { name: 'Displayed' })],
  ]) {
    await page.goto(`${base}/#/files/${kind}/${encodeURIComponent(`${folder}${hostileName}.${ending}`)}`);
    await shown().first().waitFor();
    const inside = await page.evaluate(() => ({
      harmed: document.documentElement.dataset.harmed ?? null,
      elements: [...document.querySelectorAll('script, style, iframe, object, embed, base, [onerror], [onload]')]
        .filter((element) => element.getAttribute('type') !== 'module' && element.getAttribute('sandbox') !== 'allow-same-origin')
        .map((element) => element.outerHTML),
      images: [...document.images].map((image) => new URL(image.src).origin),
    }));
    assert.deepEqual(inside, { harmed: null, elements: [], images: ending === 'svg' ? [base] : [] });
    if (ending === 'html') await inspectPage();
  }
}

/** Looks at everything in the frame of a page, and clicks on its links. */
async function inspectPage() {
  const frame = panel.frameLocator('iframe');
  assert.equal(await frame.locator('#state').textContent(), 'untouched');
  await frame.getByText('In a form').waitFor();
  // What is harmless has an effect.
  assert.equal(await frame.getByRole('heading').evaluate((heading) => getComputedStyle(heading).color), 'rgb(1, 2, 3)');
  const found = await panel.locator('iframe').evaluate((element) => {
    const { contentDocument: document } = element;
    const sheets = (rules) => [...rules].flatMap((rule) => [rule.cssText, ...sheets(rule.cssRules ?? [])]);
    const all = [...document.querySelectorAll('*')];
    return {
      names: [...new Set(all.map((one) => one.localName))].sort(),
      roots: all.filter((one) => one.shadowRoot).length,
      attributes: [...new Set(all.flatMap((one) => [...one.attributes].map((attribute) => attribute.name)))].sort(),
      addresses: all.flatMap((one) => ['href', 'src'].map((name) => one.getAttribute(name))).filter(Boolean),
      styles: [...sheets(document.adoptedStyleSheets.flatMap((sheet) => [...sheet.cssRules])), ...all.map((one) => one.getAttribute('style') ?? '')].join('\n'),
      images: [...document.images].map((image) => image.currentSrc).filter(Boolean),
    };
  });
  const names = 'a body details div h1 head html img p rect section span summary svg table tbody td text tr';
  assert.deepEqual(found.names.filter((name) => !names.split(' ').includes(name)), []);
  assert.equal(found.roots, 0);
  assert.deepEqual(found.attributes, ['href', 'id', 'open', 'src', 'style', 'title']);
  assert.ok(found.addresses.every((one) => one === '#state' || one.startsWith('data:image/gif')), found.addresses.join(' '));
  assert.doesNotMatch(found.styles, /localhost|127\.0\.0\.1|\/own|url\(/);
  assert.ok(found.images.every((one) => one.startsWith('data:')), found.images.join(' '));
  for (const name of ['Go', 'Top', 'Run', 'Data', 'Own', 'Place']) await frame.getByText(name, { exact: true }).click();
  await frame.getByText('Place', { exact: true }).press('Enter');
  assert.equal(context.pages().length, 1);
  assert.equal(await frame.locator('#state').textContent(), 'untouched');
  await panel.getByRole('button', { name: 'Source' }).click();
  await panel.getByText('In a form').waitFor();
}

// A PDF file whose actions lead elsewhere.
const samples = readFileSync(new URL('samples.py', import.meta.url), 'utf8');
await runCode(page, samples.replaceAll('LINK', address));
await page.goto(`${base}/#/files/workspace/${encodeURIComponent('samples/paper.pdf')}`);
await panel.getByRole('document').getByText('The first page').click();
assert.equal(context.pages().length, 1);

assert.deepEqual(heard, []);
assert.deepEqual(requests.filter((one) => one.startsWith(address) || /\/own|^data:text/.test(one)), []);
// The parser says what it drops, and the frame that it runs not even the listeners of the driver.
const dropped =
  /^(Applying inline style|Executing inline event handler) violates .* '(style|script)-src 'self''|^Blocked script execution in 'about:srcdoc'/;
assert.deepEqual(takeComplaints().filter((complaint) => !dropped.test(complaint)), []);
await page.goto(`${base}/#/`);

// Controls: pages without a policy run the same texts, and this one could not even if it tried.
for (const [content, ...expected] of [
  [attacks(loud.address), '/img', '/frame'],
  // A page that leaves may not load the rest of what it has.
  [pageOf(loud.address, { refresh: '', script: '' }), '/stylesheet', '/css-import', '/picture', '/inner', '/foreign', '/fetched'],
  [pageOf(loud.address, { ...leaving(loud.address), refresh: '' }), '/moved'],
  [leaving(loud.address).refresh, '/refresh'],
]) {
  const path = `/control-${loud.pages.size}`;
  loud.pages.set(path, content);
  const victim = await context.newPage();
  // An alert of an element with the focus gives it the focus again.
  await victim.addInitScript(() => (window.alert = () => {}));
  await victim.goto(`${loud.address}${path}`, { waitUntil: 'commit' });
  await new Promise((done) => {
    const look = setInterval(() => {
      if (!expected.every((one) => loud.heard.includes(one))) return;
      clearInterval(look);
      done();
    }, 20);
  });
  // A page that leaves while another one is rendered in advance may never say that it is closed. The browser ends soon.
  victim.close().catch(() => {});
}
assert.ok(loud.heard.includes('connection'));
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
for (const { server } of [silent, loud]) {
  server.close();
  server.closeAllConnections();
}
await finish();

// The browser writes its notes when it ends.
const noted = new Set([...readFileSync(log, 'utf8').matchAll(/"host":"(?:https?:\/\/)?([^":]+)/g)].map(([, name]) => name));
for (const name of ['loud.localhost', 'picture.loud.test', 'prefetched.loud.test', 'preconnected.loud.test']) {
  assert.ok(noted.has(name), `the look-up of ${name} is noted`);
}
assert.deepEqual([...noted].filter((name) => /silent\.(localhost|test)$/.test(name)), [], 'names that were looked up');
