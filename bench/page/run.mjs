// Measures the page with a long conversation and a fast model. See README.md.

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { countItems, makeConversation } from './conversation.mjs';
import { startModel } from './model.mjs';
import { frames, install, scrollThrough, take } from './probes.mjs';
import { asText, figures, percentile } from './report.mjs';
import { startServer } from './server.mjs';

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    messages: { type: 'string', default: '2000' },
    rate: { type: 'string', default: '500' },
    seconds: { type: 'string', default: '20' },
    samples: { type: 'string', default: '6' },
    page: { type: 'string' },
    trace: { type: 'string' },
    json: { type: 'string' },
  },
});
const [program] = positionals;
const { CORACLE_PAGE_MODULES: modules, CORACLE_PAGE_BROWSER: executablePath = '/usr/bin/chromium' } = process.env;
if (!program || !modules) {
  console.error('usage: CORACLE_PAGE_MODULES=…/node_modules node bench/page/run.mjs PATH/TO/coracle [options]; see README.md');
  process.exit(2);
}
const messages = Number(options.messages);
const rate = Number(options.rate);

/** Answers between two measurements of the memory, and tokens of each. */
const ANSWERS = 5;
const ANSWER_TOKENS = 1_000;
/** Time between two keys, in milliseconds: fast typing. */
const KEY_PAUSE = 70;

const { chromium } = createRequire(`${modules}/`)('playwright-core');
const load = () => loadavg()[0].toFixed(2);

/** Answers requests for the page from a folder, with the headers of the server. */
async function servePage(context, page, base, folder) {
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

async function measured(server, model) {
  const conversation = await makeConversation(server, messages);
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--enable-precise-memory-info'] });
  try {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
    context.setDefaultTimeout(60_000);
    const page = await context.newPage();
    page.on('pageerror', (error) => {
      throw error;
    });
    if (options.page) await servePage(context, page, server.base, options.page);
    await page.goto(server.link);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('textbox', { name: 'Message' }).waitFor();
    const devtools = await context.newCDPSession(page);
    const field = page.getByRole('textbox', { name: 'Message' });
    // Numbers go on after those of the conversation.
    let answers = messages;

    /** Asks for an answer, and waits for its end. What is typed meanwhile stays in the field. */
    const ask = async (tokens, during = async () => {}) => {
      answers += 1;
      await field.fill(`answer ${answers} with ${tokens} tokens`);
      await page.keyboard.press('Enter');
      await page.getByText(`Answer ${answers} begins.`).waitFor({ state: 'attached' });
      await during();
      await page.getByText(`Answer ${answers} ends.`).waitFor({ state: 'attached' });
      await page.getByRole('button', { name: 'Stop' }).waitFor({ state: 'detached' });
      const parts = await page.getByRole('heading', { name: new RegExp(`^Part ${answers}\\.`), includeHidden: true }).allTextContents();
      assert.deepEqual(parts, parts.map((_, index) => `Part ${answers}.${index + 1}`), 'parts of the answer, each once');
      assert.ok(parts.length > 0);
    };
    /** Streams an answer, and types until it ends. */
    const streamed = async () => {
      const text = 'the quick brown fox jumps over the lazy dog ';
      let typed = '';
      await page.evaluate(take);
      await ask(rate * Number(options.seconds), async () => {
        const stop = page.getByRole('button', { name: 'Stop' });
        while (await stop.isVisible()) {
          for (const key of text) await page.keyboard.press(key === ' ' ? 'Space' : key, { delay: 0 }).then(() => page.waitForTimeout(KEY_PAUSE));
          typed += text;
        }
      });
      assert.equal(await field.inputValue(), typed, 'what was typed');
      const found = await page.evaluate(take);
      assert.ok(found.delays.length >= typed.length, 'delays of keys');
      await field.fill('');
      return figures(found);
    };

    // The time to show the conversation, from an empty tab.
    await page.goto('about:blank');
    await page.addInitScript(install, `Answer ${messages} ends.`);
    await page.goto(`${server.base}/#/c/${conversation}`);
    await page.waitForFunction(() => window.probes.shown !== null);
    await page.waitForLoadState('networkidle');
    const shown = await page.evaluate(() => window.probes.shown);
    const loading = figures(await page.evaluate(take));

    if (options.trace) await browser.startTracing(page, { path: options.trace, categories: ['devtools.timeline', 'disabled-by-default-v8.cpu_profiler'] });
    const stream = await streamed();

    // All of the conversation, one page after the other.
    await page.evaluate(take);
    const earlier = page.getByRole('button', { name: 'Show earlier messages' });
    while (await earlier.isVisible()) {
      const answered = page.waitForResponse((response) => response.url().includes('after='));
      await earlier.click();
      await (await answered).finished();
      await page.evaluate(frames, 2);
    }
    const paging = figures(await page.evaluate(take));
    const numbers = await page.evaluate(scrollThrough);
    const expected = Array.from({ length: messages / 2 }, (_, index) => 2 * index + 1);
    assert.deepEqual(numbers, expected, 'questions that were seen while scrolling through the conversation');
    const scrolling = figures(await page.evaluate(take));
    const afterPaging = await streamed();
    if (options.trace) await browser.stopTracing();

    // Memory over many answers, after a reload.
    await page.reload();
    await page.getByText(`Answer ${answers} ends.`).waitFor({ state: 'attached' });
    const heap = [];
    const elements = [];
    for (let sample = 0; sample < Number(options.samples); sample += 1) {
      for (let answer = 0; answer < ANSWERS; answer += 1) await ask(ANSWER_TOKENS);
      await devtools.send('HeapProfiler.collectGarbage');
      heap.push((await devtools.send('Runtime.getHeapUsage')).usedSize);
      elements.push(await page.evaluate(() => document.querySelectorAll('*').length));
    }
    assert.equal(await countItems(server, conversation), messages + 2 * (answers - messages), 'messages at the end');
    return {
      messages,
      wanted_tokens_per_second: rate,
      tokens_per_second: Math.round(percentile(model.paces, 0.5)),
      browser: `Chromium ${browser.version()}`,
      shown_ms: Math.round(shown),
      loading,
      stream,
      paging,
      scrolling,
      stream_after_paging: afterPaging,
      answers_per_sample: ANSWERS,
      heap_bytes: heap,
      elements,
    };
  } finally {
    await browser.close();
  }
}

const loadBefore = load();
const model = await startModel(rate);
const server = await startServer(program, model.url);
try {
  const result = { ...(await measured(server, model)), load_before: loadBefore, load_after: load() };
  if (options.json) writeFileSync(options.json, `${JSON.stringify(result, null, 2)}\n`);
  console.log(asText(result));
} finally {
  await server.stop();
  model.close();
}
