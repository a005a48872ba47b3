// Measures the page with a long conversation and a fast model. See README.md.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { loadavg } from 'node:os';
import { parseArgs } from 'node:util';
import { countItems, makeConversation } from './conversation.mjs';
import { servePage } from './folder.mjs';
import { startModel } from './model.mjs';
import { ended, install, loadAll, partsOf, scrollThrough, take } from './probes.mjs';
import { asText, figures, percentile } from './report.mjs';
import { startServer } from './server.mjs';
import { traced } from './tasks.mjs';

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    messages: { type: 'string', default: '2000' },
    rate: { type: 'string', default: '500' },
    seconds: { type: 'string', default: '20' },
    samples: { type: 'string', default: '6' },
    page: { type: 'string' },
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

    /** Asks for an answer. Nothing looks at the page until the model has written all of it, since that takes time, too. */
    const ask = async (tokens, during = async () => {}) => {
      answers += 1;
      await field.fill(`answer ${answers} with ${tokens} tokens`);
      const written = model.next();
      await page.keyboard.press('Enter');
      await during(written);
      await written;
      await page.evaluate(ended, answers);
      const parts = await page.evaluate(partsOf, answers);
      assert.deepEqual(parts, parts.map((_, index) => `Part ${answers}.${index + 1}`), 'parts of the answer, each once');
      assert.ok(parts.length > 0);
    };
    /** Streams an answer, and types until it has been written. */
    const streamed = async () => {
      const text = 'the quick brown fox jumps over the lazy dog ';
      let typed = '';
      await ask(rate * Number(options.seconds), async (written) => {
        let isWritten = false;
        void written.then(() => (isWritten = true));
        while (!isWritten) {
          const key = text[typed.length % text.length];
          await page.keyboard.press(key === ' ' ? 'Space' : key);
          typed += key;
          await new Promise((resolve) => setTimeout(resolve, KEY_PAUSE));
        }
      });
      assert.equal(await field.inputValue(), typed, 'what was typed');
      await field.fill('');
      return typed.length;
    };
    /** The figures of something that the page does. */
    const phase = async (act) => {
      await page.evaluate(take);
      const { result: keys = 0, times } = await traced(browser, act);
      const found = await page.evaluate(take);
      assert.ok(times.length > 0, 'tasks of the page');
      assert.ok(found.delays.length >= keys, 'delays of keys');
      return figures({ ...found, times });
    };

    // The time to show the conversation, from an empty tab.
    await page.goto('about:blank');
    await page.addInitScript(install, `Answer ${messages} ends.`);
    const { result: shown, times: loadingTimes } = await traced(browser, async () => {
      await page.goto(`${server.base}/#/c/${conversation}`);
      await page.waitForFunction(() => window.probes.shown !== null);
      await page.waitForLoadState('networkidle');
      return page.evaluate(() => window.probes.shown);
    });
    const loading = figures({ ...(await page.evaluate(take)), times: loadingTimes });

    const stream = await phase(streamed);

    // All of the conversation, one page after the other, and from its beginning to its end.
    const paging = await phase(() => page.evaluate(loadAll));
    let numbers;
    const scrolling = await phase(async () => {
      numbers = await page.evaluate(scrollThrough);
    });
    const expected = Array.from({ length: messages / 2 }, (_, index) => 2 * index + 1);
    assert.deepEqual(numbers, expected, 'questions that were seen while scrolling through the conversation');
    const afterPaging = await phase(streamed);

    // Memory over many answers, after a reload.
    await page.reload();
    await page.waitForFunction(() => window.probes.shown !== null || document.querySelectorAll('.user').length > 0);
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
const lab = { url: model.url, api: 'chat', context_tokens: 100_000_000 };
const agent = { default_model: 'lab/demo', max_run_tokens: 100_000_000, providers: { lab } };
const server = await startServer(program, { agent });
try {
  const result = { ...(await measured(server, model)), load_before: loadBefore, load_after: load() };
  if (options.json) writeFileSync(options.json, `${JSON.stringify(result, null, 2)}\n`);
  console.log(asText(result));
} finally {
  await server.stop();
  model.close();
}
